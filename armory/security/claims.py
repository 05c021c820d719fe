"""What the claims of a token say: who it is, what it grants, until when.

Owns: reading claims that somebody else wrote. Never checks a signature.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from armory.errors import AuthenticationFailed
from armory.logger import Logger

_log = Logger(__name__)
FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
"""The form of a signed JWT."""
MAX_TOKEN_CHARS = 16_384
REFUSED = "the session token is not valid"
"""All that a caller is told; which check failed is in the log."""
_MAX_USER_CHARS = 200
_CREDENTIALS = ("token:", "api_key:", "anonymous:", "environment:", "internal:")
"""Prefixes of callers without a user, which no user's name may begin with."""


def user_of(claims: Mapping[str, Any], claim: str) -> str:
    """The user in a claim.

    Raises:
        AuthenticationFailed: there is none that could be one.
    """
    user = claims.get(claim)
    if not isinstance(user, str) or not 1 <= len(user) <= _MAX_USER_CHARS:
        _log.info("jwt_refused", reason=f"no user in the claim {claim!r}")
        raise AuthenticationFailed(REFUSED)
    if not user.isprintable() or user != user.strip() or user.startswith(_CREDENTIALS):
        _log.info("jwt_refused", reason=f"no user in the claim {claim!r}")
        raise AuthenticationFailed(REFUSED)
    return user


def scopes_of(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """The scopes in a claim: a list, or words in a text."""
    granted = claims.get(claim)
    if isinstance(granted, str):
        granted = granted.split()
    return frozenset(
        scope for scope in (granted if isinstance(granted, list) else ()) if isinstance(scope, str)
    )


def audience_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """The resources that a token is for; empty: it does not say."""
    audience = claims.get("aud")
    if isinstance(audience, str):
        return frozenset((audience,))
    listed = audience if isinstance(audience, list) else ()
    return frozenset(entry for entry in listed if isinstance(entry, str))


def expiry_of(claims: Mapping[str, Any]) -> float:
    """When the token ends, in seconds since 1970.

    Raises:
        AuthenticationFailed: no number, or one that is no date (10^400 is valid JSON).
    """
    try:
        return float(claims["exp"])
    except (KeyError, TypeError, ValueError, OverflowError):
        _log.info("jwt_refused", reason="exp is no date")
        raise AuthenticationFailed(REFUSED) from None
