"""Tokens for an upstream by an ID-JAG: the identity provider vouches for the caller, and the
upstream's authorization server gives a token for that.

Owns: redeeming the grant (RFC 7523). Never imports the protocol; never logs a token.
"""

from __future__ import annotations

from typing import Any

from yarl import URL

from armory.oauth.metadata import Undiscovered
from armory.upstreams.oauth.client import TokenResponse, client_authentication, secret_method
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, canonical, discover
from armory.upstreams.oauth.grants import JwtBearer
from armory.upstreams.oauth.subjects import TOKEN_TYPE, ExchangedTokens

_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class JwtBearerTokens(ExchangedTokens):
    """Tokens by an ID-JAG; see the module, and `ExchangedTokens`.

    Args:
        server: key of the upstream.
        grant: as configured.
        more: as for `Tokens`.
    """

    def __init__(self, server: str, grant: JwtBearer, **more: Any) -> None:
        super().__init__(server, grant, **more)
        self._bearer_grant = grant
        self._redeemer: AuthServerMetadata | None = None

    async def exchanged(self, subject: str, url: URL) -> TokenResponse:
        """As `ExchangedTokens.exchanged`."""
        grant = self._bearer_grant
        place = await self._authorization_server(url)
        resource = place.resource or canonical(url)
        asked = {"audience": grant.audience, "resource": resource}
        vouched = await self.exchange_for("id-jag", subject, asked, "N_A")
        if vouched.issued_type != f"{TOKEN_TYPE}id-jag":
            raise self.refused(
                f"the identity provider gave {vouched.issued_type[:80]!r} in place of an ID-JAG"
            )
        form = {"grant_type": _BEARER, "assertion": vouched.token, "resource": resource}
        if grant.scopes:
            form["scope"] = " ".join(grant.scopes)
        method = secret_method(place) if grant.audience_client_secret else "none"
        headers = client_authentication(
            method, grant.audience_client_id, grant.audience_client_secret, form
        )
        return await self.request_token(place, headers, form)

    async def _authorization_server(self, url: URL) -> AuthServerMetadata:
        """The upstream's authorization server, which must be the configured one."""
        if self._redeemer is None:
            audience = self._bearer_grant.audience
            try:
                found = await discover(url, Challenge(), audience, "", self.fetch)
            except Undiscovered as error:
                raise self.undiscovered(error) from None
            self._redeemer = found
        return self._redeemer
