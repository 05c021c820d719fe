"""Logging the person in the browser in at the gateway's own issuer.

Owns: the gateway as a client there. Never decides who may connect what.
"""

from __future__ import annotations

from yarl import URL

from armory.oauth.metadata import Undiscovered, server_metadata
from armory.upstreams.oauth.code_flow import CodeFlow
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, place_in
from armory.upstreams.oauth.grants import AuthorizationCode

_SCOPES = ("openid", "profile", "email")


class SignIn(CodeFlow):
    """The gateway as a client of its issuer.

    Args:
        issuer: as configured.
        client_id, client_secret: who the gateway is there; "": it registers itself.
    """

    def __init__(self, issuer: str, client_id: str = "", client_secret: str = "") -> None:
        grant = AuthorizationCode(client_id, client_secret, issuer=issuer, scopes=_SCOPES)
        super().__init__("the gateway", grant, named=(issuer,))
        self.issuer = issuer

    async def found(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """As `CodeFlow.found`: the issuer itself, for no resource."""
        try:
            server = await server_metadata(self.issuer, self.fetch)
            return place_in(server, url, self.issuer, None)
        except Undiscovered as error:
            raise self.failed(str(error)) from None
