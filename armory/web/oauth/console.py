"""The gateway's console as a client of the gateway itself, where that logs people in.

Owns: how such a login begins, and that its code is redeemed here. Never talks HTTP.
"""

from __future__ import annotations

from yarl import URL

from armory.authserver.clients import CONSOLE, console
from armory.authserver.errors import OAuthError
from armory.authserver.server import AuthorizationServer
from armory.upstreams.oauth.client import TokenResponse
from armory.upstreams.oauth.code_flow import GatewayLogin
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import Login


class OwnLogin(GatewayLogin):
    """Logins to the console by way of `/oauth/authorize`.

    Args:
        server: the gateway as an authorization server.
    """

    def __init__(self, server: AuthorizationServer) -> None:
        super().__init__(server.provider.issuer, AuthorizationCode(CONSOLE), ())
        self._server = server

    async def found(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """As `CodeFlow.found`: the gateway itself, whose endpoint is at `url`."""
        issuer = str(url).removesuffix("/mcp")
        return AuthServerMetadata(
            f"{issuer}/oauth/token",
            issuer,
            resource=str(url),
            login_url=f"{issuer}/oauth/authorize",
            pkce=True,
            says_issuer=True,
        )

    async def given_to(self, login: Login, form: dict[str, str]) -> TokenResponse:
        """As `CodeFlow.given_to`; the refresh token is for nobody."""
        uri, verifier = form["redirect_uri"], form["code_verifier"]
        client = console(login.issuer)
        try:
            given = await self._server.grants.redeem(
                form["code"], client, uri, verifier, login.resource
            )
        except OAuthError as error:
            raise self.refused(error.description) from None
        return TokenResponse(given.access, given.lifetime_s)
