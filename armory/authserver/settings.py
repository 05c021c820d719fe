"""The settings of the authorization server, as plain values.

Owns: the dataclass that `runtime` fills, and its defaults. Never imports anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client that the operator registered.

    Attributes:
        name: what people are shown.
        client_secret: its secret; "": it has none.
        redirects: redirect URIs, exact; on loopback with any port.
    """

    name: str = ""
    client_secret: str = field(default="", repr=False)
    redirects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The provider behind the gateway, and what the gateway issues in its place.

    Attributes:
        client_id, client_secret: who the gateway is at the provider.
        issuer: the provider, whose metadata name its endpoints; or the three URLs.
        authorize_url, token_url: where people log in, and where codes are redeemed.
        userinfo_url: who the person is, where there is no ID token.
        scopes: asked for at the provider.
        clients: registered by the operator, by their ids.
        id_jag_issuers: identity providers whose ID-JAGs clients may redeem.
        redirects: patterns of what clients may be sent back to; none: any that is safe.
        consent: whether people are asked before a client is let in.
        granted: scopes that every token of the gateway carries.
        user_claim: claim with the user's name, of the ID token or of userinfo.
        scopes_claim: claim with further scopes, a list or words in a text.
        clock_skew_s: by how many seconds the clocks of the providers may be apart from this one.
    """

    client_id: str
    client_secret: str = field(default="", repr=False)
    issuer: str = ""
    authorize_url: str = ""
    token_url: str = ""
    userinfo_url: str = ""
    scopes: tuple[str, ...] = ()
    clients: Mapping[str, KnownClient] = field(default_factory=dict[str, KnownClient])
    id_jag_issuers: tuple[str, ...] = ()
    redirects: tuple[str, ...] = ()
    consent: bool = True
    granted: tuple[str, ...] = ()
    user_claim: str = "sub"
    scopes_claim: str = "scope"
    clock_skew_s: float = 30.0
