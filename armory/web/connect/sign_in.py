"""Logging the person in the browser in at the gateway's own issuer.

Owns: the gateway as a client there. Never decides who may connect what.
"""

from __future__ import annotations

from yarl import URL

from armory.oauth.metadata import Undiscovered, server_metadata
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, place_in
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import Login
from armory.upstreams.oauth.person import AuthorizationCodeTokens

_SCOPES = ("openid", "profile", "email")


class NoStore:
    """Keeps nothing: of this login only who it is counts. Satisfies `LoginStore`."""

    async def load(self) -> Login | None:
        """None."""
        return None

    async def save(self, login: Login | None) -> None:
        """Nothing."""

    async def lease(self) -> bool:
        """Always."""
        return True

    async def release(self) -> None:
        """Nothing."""


class SignIn(AuthorizationCodeTokens):
    """The gateway as a client of its issuer.

    Args:
        issuer: as configured.
        client_id, client_secret: who the gateway is there; "": it registers itself.
    """

    def __init__(self, issuer: str, client_id: str = "", client_secret: str = "") -> None:
        grant = AuthorizationCode(client_id, client_secret, issuer=issuer, scopes=_SCOPES)
        super().__init__("the gateway", grant, NoStore())
        self.issuer = issuer

    async def found(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """As `AuthorizationCodeTokens.found`: the issuer itself, for no resource."""
        try:
            server = await server_metadata(self.issuer, self.fetch)
            return place_in(server, url, self.issuer, None)
        except Undiscovered as error:
            raise self.failed(str(error)) from None
