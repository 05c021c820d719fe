"""Console login: at the gateway's own issuer, or through the gateway as authorization server.

Owns: the gateway as a client of its issuer, and the secrets of a login while its person is away,
sealed. The access token goes to the browser tab that began, and is kept nowhere.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from yarl import URL

from armory.oauth.metadata import Undiscovered, server_metadata
from armory.security.sealing import Seal
from armory.upstreams.oauth.code_flow import BegunLogin, GatewayLogin
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, usable_metadata
from armory.upstreams.oauth.grants import AuthorizationCode

_PURPOSE = "console login"
_LOGIN_S = 600
_METADATA_S = 300


class _PendingLogin(msgspec.Struct, frozen=True):
    begun: BegunLogin
    until: float


class IssuerLogin(GatewayLogin):
    """A login at the issuer for access tokens for the gateway itself; caches the issuer's metadata.

    Args:
        issuer: as configured.
        client_id, client_secret: who the gateway is there; "" for a public client's secret.
        scopes: asked for.
    """

    def __init__(
        self, issuer: str, client_id: str, client_secret: str, scopes: Sequence[str]
    ) -> None:
        grant = AuthorizationCode(client_id, client_secret, issuer=issuer, scopes=tuple(scopes))
        super().__init__(issuer, grant, (issuer,))
        self._found: Mapping[str, Any] | None = None
        self._until = 0.0

    async def discover_server(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """As `CodeFlow.discover_server`: the issuer itself."""
        try:
            if self._found is None or self._until < time.monotonic():
                self._found = await server_metadata(self.issuer, self.fetch)
                self._until = time.monotonic() + _METADATA_S
            return usable_metadata(self._found, url, self.issuer, {"resource": str(url)})
        except Undiscovered as error:
            raise self.failed(str(error)) from None


class ConsoleSignIn:
    """Satisfies `web.rest.live.sign_in.SignIn`.

    Args:
        flow: where people log in.
        seal: of what the browser keeps meanwhile.
    """

    def __init__(self, flow: GatewayLogin, seal: Seal) -> None:
        self._flow = flow
        self._seal = seal
        self.issuer = flow.issuer

    async def begin(self, resource: str, redirect_uri: str) -> tuple[str, str]:
        """(the login URL, the sealed state that the tab keeps until it comes back).

        Raises:
            NoToken: nobody can log in there.
        """
        begun = await self._flow.begin(URL(resource), Challenge(), redirect_uri)
        away = msgspec.json.encode(_PendingLogin(begun, time.time() + _LOGIN_S))
        return begun.login_url, base64.urlsafe_b64encode(self._seal.seal(away, _PURPOSE)).decode()

    async def finish(self, kept: str, back: Mapping[str, str]) -> tuple[str, float | None] | None:
        """(access token, its expiry in seconds since 1970); None where `kept` was not sealed here.

        Raises:
            NoToken: what came back is not of this login, or no token was given for it.
        """
        try:
            opened = self._seal.open(base64.urlsafe_b64decode(kept), _PURPOSE)
            away = None if opened is None else msgspec.json.decode(opened, type=_PendingLogin)
        except (ValueError, msgspec.DecodeError):
            return None
        if away is None or away.until < time.time():
            return None
        login, _ = await self._flow.finish(away.begun, back)
        return login.access_token, login.expires_at
