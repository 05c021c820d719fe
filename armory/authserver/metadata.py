"""The gateway's metadata as an authorization server (RFC 8414, OpenID Connect discovery).

Owns: the document. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from armory.authserver.assertions import JWT_BEARER, PROFILE
from armory.authserver.client_keys import METHOD
from armory.authserver.clients import METHODS
from armory.security.issuer import ALGORITHMS


def document(issuer: str, scopes: Sequence[str], *, id_jags: bool = False) -> dict[str, Any]:
    """The metadata of the gateway at `issuer`.

    It includes members of OpenID Connect discovery for clients that only look there; no ID tokens
    are issued, so there are no keys.
    """
    methods = (*METHODS, METHOD)
    found: dict[str, Any] = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "registration_endpoint": f"{issuer}/oauth/register",
        "revocation_endpoint": f"{issuer}/oauth/revoke",
        "jwks_uri": f"{issuer}/oauth/jwks",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    if id_jags:
        found["grant_types_supported"] = [*found["grant_types_supported"], JWT_BEARER]
        found["authorization_grant_profiles_supported"] = [PROFILE]
    if scopes:
        found["scopes_supported"] = list(scopes)
    return found
