"""The settings of security, as plain values.

Owns: the dataclasses that `runtime` fills, and their defaults. Never imports anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

PinningMode = Literal["off", "warn", "block"]


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """How session tokens are checked.

    Attributes:
        issuer: required `iss`; None: any.
        audience: required `aud`; None: any.
        jwks_url: where the provider's public keys are; or `secret`.
        secret: shared secret of the HS algorithms, at least 32 characters.
        algorithms: accepted signature algorithms: HS ones with a secret, others with keys.
        user_claim: claim with the user's id.
        scopes_claim: claim with the scopes, a list or words in a text.
    """

    issuer: str | None = None
    audience: str | None = None
    jwks_url: str | None = None
    secret: str | None = field(default=None, repr=False)
    algorithms: Sequence[str] = ("RS256", "ES256")
    user_claim: str = "sub"
    scopes_claim: str = "scope"


@dataclass(frozen=True, slots=True)
class IntrospectionSettings:
    """How opaque tokens are checked: by asking the provider (RFC 7662).

    Attributes:
        url: of the endpoint; None: the one in the issuer's metadata.
        client_id, client_secret: who the gateway is there.
    """

    client_id: str
    client_secret: str = field(repr=False)
    url: str | None = None


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """The gateway as a resource server: whose access tokens it takes, and for what.

    Attributes:
        issuers: authorization servers whose tokens are taken; the first one's users keep their
            plain names, those of the others are called `ISSUER|NAME`.
        audience: what a token may be for, beside the endpoint's own URL.
        scopes: that every token needs.
        implied_scopes: narrower scopes that whoever has a broader one has, too, by the broader.
        user_claim: claim with the user's id.
        scopes_claim: claim with the scopes, a list or words in a text.
        client_id: the gateway itself at the first issuer; None: it is no client there.
        introspection: for opaque tokens; None: they are not taken.
        beside_jwt: whether signed tokens of issuers that are not named here are another scheme's,
            and so not introspected.
        clock_skew_s: by how many seconds the clocks of the issuers may be apart from this one.
    """

    issuers: Sequence[str]
    audience: Sequence[str] = ()
    scopes: Sequence[str] = ()
    implied_scopes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    user_claim: str = "sub"
    scopes_claim: str = "scope"
    client_id: str | None = None
    introspection: IntrospectionSettings | None = None
    beside_jwt: bool = False
    clock_skew_s: float = 30.0
