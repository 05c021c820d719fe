"""The gateway's own pages as an OAuth client of the gateway itself (`security.oauth.proxy`).

These are the console, and the page where people connect accounts.

Owns: how such a login begins, and that its code is redeemed here. Never talks HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping

from yarl import URL

from armory.authserver.clients import OWN, own
from armory.authserver.errors import OAuthError
from armory.authserver.server import AuthorizationServer
from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed
from armory.security.claims import REFUSED
from armory.upstreams.oauth.client import TokenResponse
from armory.upstreams.oauth.code_flow import BegunLogin, GatewayLogin
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import Login


class OwnLogin(GatewayLogin):
    """Logins by way of `/oauth/authorize`: the provider knows one redirect URI of the gateway.

    Satisfies `web.connect.services.SignIn`.

    Args:
        server: the gateway as an authorization server.
    """

    def __init__(self, server: AuthorizationServer) -> None:
        super().__init__(server.provider.issuer, AuthorizationCode(OWN), ())
        self._server = server

    async def discover_server(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """As `CodeFlow.discover_server`: the gateway itself, whose endpoint is at `url`."""
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
        client = own(login.issuer)
        try:
            given = await self._server.grants.redeem(
                form["code"], client, uri, verifier, login.resource
            )
        except OAuthError as error:
            raise self.refused(error.description) from None
        return TokenResponse(given.access, given.lifetime_s)

    @property
    def says_scopes(self) -> bool:
        """True, as for the tokens that clients get."""
        return True

    async def begin_here(self, redirect_uri: str) -> BegunLogin:
        """Begin a login that only identifies the person."""
        mcp = URL(f"{redirect_uri.removesuffix('/connect/callback')}/mcp")
        return await self.begin(mcp, Challenge(), redirect_uri)

    async def principal_of(self, begun: BegunLogin, back: Mapping[str, str]) -> Principal:
        """The principal of a completed login.

        Raises:
            ArmoryError: nobody who can be known.
        """
        login, _ = await self.finish(begun, back)
        grants = self._server.grants
        handle = grants.access(login.access_token)
        grant = None if handle is None else await grants.kept(handle.grant)
        if grant is None:
            raise AuthenticationFailed(REFUSED)
        await grants.revoke(login.access_token, own(begun.client.issuer))
        who = grant.identity
        scopes = frozenset((*self._server.settings.granted, *who.scopes))
        return Principal(who.subject, who.user, scopes, "oauth")
