"""Logging in the person in the browser at the gateway's own issuer.

Owns: the gateway as a client there. Never decides who may connect what.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from yarl import URL

from armory.domain.principal import Principal
from armory.oauth.metadata import Undiscovered, server_metadata
from armory.upstreams.oauth.code_flow import BegunLogin, GatewayLogin
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, usable_metadata
from armory.upstreams.oauth.grants import AuthorizationCode

SignedIn = Callable[[str, str], Awaitable[Principal]]
_SCOPES = ("openid", "profile", "email")


class IssuerSignIn(GatewayLogin):
    """The gateway as a client of its issuer.

    Args:
        issuer: as configured.
        signed_in: who it is, by an ID token and the client that it was given to.
        client_id, client_secret: who the gateway is there; "": it registers itself.
    """

    def __init__(
        self, issuer: str, signed_in: SignedIn, client_id: str = "", client_secret: str = ""
    ) -> None:
        grant = AuthorizationCode(client_id, client_secret, issuer=issuer, scopes=_SCOPES)
        super().__init__(issuer, grant, (issuer,))
        self._signed_in = signed_in

    @property
    def says_scopes(self) -> bool:
        """False: an ID token carries no scopes."""
        return False

    async def principal_of(self, begun: BegunLogin, back: Mapping[str, str]) -> Principal:
        """The principal of a completed login, by the callback's parameters `back`."""
        login, id_token = await self.finish(begun, back)
        return await self._signed_in(id_token, login.client_id)

    async def discover_server(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """As `CodeFlow.discover_server`: the issuer itself, for no resource."""
        try:
            server = await server_metadata(self.issuer, self.fetch)
            return usable_metadata(server, url, self.issuer, None)
        except Undiscovered as error:
            raise self.failed(str(error)) from None
