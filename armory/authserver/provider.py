"""The identity provider behind the gateway: logging people in, and validating their identity.

Owns: the gateway as its client, and which claims are believed. Never gives out a token.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jwt
import msgspec
from yarl import URL

from armory.authserver.settings import ProxySettings
from armory.errors import AuthenticationFailed, BackendError
from armory.logger import Logger
from armory.oauth.exchange import json_object
from armory.oauth.metadata import Undiscovered, is_secure, server_metadata, text
from armory.security.claims import (
    UNVERIFIED,
    audience_of,
    check_own,
    is_unverified,
    scopes_of,
    user_of,
)
from armory.security.issuer import Issuer, reason
from armory.upstreams.oauth.client import NoToken, TokenRefused
from armory.upstreams.oauth.code_flow import BegunLogin, GatewayLogin, with_tokens
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, usable_metadata
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import Login

_log = Logger(__name__)
_OPENID = ("openid", "profile", "email")
_NOT_SAID = "the provider does not say who it is"


class Identity(msgspec.Struct, frozen=True):
    """The identity of a person that logged in.

    Attributes:
        subject: unique over all providers.
        user: what policies, quotas and accounts know the person by.
        scopes: that the provider grants it.
    """

    subject: str
    user: str
    scopes: tuple[str, ...] = ()


class Provider(GatewayLogin):
    """The gateway as a client of the provider.

    Args:
        settings: which provider.
    """

    def __init__(self, settings: ProxySettings) -> None:
        named = (settings.issuer, settings.authorize_url, settings.token_url, settings.userinfo_url)
        scopes = settings.scopes or (_OPENID if settings.issuer else ())
        grant = AuthorizationCode(
            settings.client_id, settings.client_secret, issuer=settings.issuer, scopes=scopes
        )
        issuer = settings.issuer or str(URL(settings.authorize_url).origin())
        super().__init__(issuer, grant, tuple(filter(None, named)))
        self._settings = settings
        self._issuer: Issuer | None = None
        if settings.issuer:
            self._issuer = Issuer(settings.issuer, leeway_s=settings.clock_skew_s)

    async def discover_server(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """As `CodeFlow.discover_server`: as configured, for no resource."""
        settings = self._settings
        if not settings.issuer:
            methods = ("client_secret_post",)
            return AuthServerMetadata(
                settings.token_url, methods=methods, login_url=settings.authorize_url, pkce=True
            )
        try:
            server = await server_metadata(settings.issuer, self.fetch)
            return usable_metadata(server, URL(settings.issuer), settings.issuer, None)
        except Undiscovered as error:
            raise self.failed(str(error)) from None

    async def logged_in(self, begun: BegunLogin, back: Mapping[str, str]) -> tuple[Login, Identity]:
        """(tokens, identity) of a person who came back with these parameters.

        Raises:
            ArmoryError: they are not as they must be, or nobody can be known by them.
        """
        login, id_token = await self.finish(begun, back)
        identity = self._identity(await self._claims(login, id_token))
        return msgspec.structs.replace(login, id_token=id_token), identity

    async def refreshed(self, login: Login, identity: Identity) -> tuple[Login, Identity]:
        """(the refreshed login, the person with its current scopes).

        Raises:
            TokenRefused: it does not, or it is somebody else by now.
            NoToken: it cannot be asked.
        """
        if login.refresh_token:
            form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
            given = await self.given_to(login, form)
            return await self._after_refresh(with_tokens(login, given), given.id_token, identity)
        if login.expires_at is not None and login.expires_at <= time.time():
            raise self.refused("its access token has expired, and it gave no refresh token")
        claims = await self._userinfo(login.access_token)
        if login.id_token:
            return await self._after_refresh(login, "", identity)
        return login, self._same(claims, identity)

    async def _after_refresh(
        self, login: Login, id_token: str, identity: Identity
    ) -> tuple[Login, Identity]:
        """A refreshed login, with the new ID token if it is usable.

        Raises:
            TokenRefused: it is of somebody else (OpenID Connect Core, 12.2).
        """
        try:
            claims = await self._claims(login, id_token)
        except TokenRefused:
            raise
        except (AuthenticationFailed, BackendError, NoToken) as error:
            _log.rate_limited("warning", "id_token_not_renewed", reason=error.message)
            return login, identity
        if login.id_token and id_token:
            login = msgspec.structs.replace(login, id_token=id_token)
        return login, self._same(claims, identity)

    def _same(self, claims: Mapping[str, Any], identity: Identity) -> Identity:
        """The person of a login, with the scopes that the provider reports now, if any.

        Raises:
            TokenRefused: it is another one, or called otherwise: its name may be somebody else's.
        """
        if not claims:
            return identity
        try:
            now = self._identity(claims)
        except AuthenticationFailed as error:
            raise self.refused(error.message) from None
        if (now.subject, now.user) != (identity.subject, identity.user):
            raise self.refused("it is of somebody else, or called otherwise, by now")
        return now

    async def _claims(self, login: Login, id_token: str) -> Mapping[str, Any]:
        """The claims about a person: of the ID token (the login's, where no new one came), and of
        userinfo where a configured claim is missing.
        """
        claims: Mapping[str, Any] = {}
        if id_token and self._issuer is not None:
            claims = await self._verified(self._issuer, id_token, login.client_id)
        elif login.id_token and self._issuer is not None:  # which was verified when it came
            claims = jwt.decode(login.id_token, options={"verify_signature": False})
        nameless = self._settings.user_claim not in claims
        if nameless or self._settings.scopes_claim not in ("scope", *claims):
            try:
                more = await self._userinfo(login.access_token)
            except TokenRefused:
                if nameless:
                    raise
                more = {}
            if claims and more.get("sub") != claims.get("sub"):
                more = {}  # of somebody else (OpenID Connect Core, 5.3.2)
            claims = {**more, **claims}
        return claims

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        user = named(claims, self._settings.user_claim)
        check_own(user, self._settings.id_jag_issuers)
        subject = named(claims, "sub") if "sub" in claims else user
        scopes = scopes_of(claims, self._settings.scopes_claim)
        return Identity(f"{self.issuer}|{subject}", user, tuple(sorted(scopes)))

    async def _verified(self, issuer: Issuer, id_token: str, client_id: str) -> Mapping[str, Any]:
        try:
            claims = await issuer.claims(id_token)
        except jwt.PyJWTError as error:
            why = reason(error)
            _log.rate_limited("info", "id_token_refused", reason=why, issuer=issuer.name)
            raise AuthenticationFailed(f"the provider's ID token is not valid: {why}") from None
        if client_id not in audience_of(claims):
            raise AuthenticationFailed("the provider's ID token is for another client")
        return claims

    async def _userinfo(self, token: str) -> Mapping[str, Any]:
        """The userinfo claims for a token; empty where the provider has no such endpoint.

        Raises:
            TokenRefused: it says that the token does not hold.
            NoToken: it cannot be asked.
        """
        url = self._settings.userinfo_url
        if not url and self._issuer is not None:
            url = text((await self._issuer.metadata()).get("userinfo_endpoint"))
        if not url or not is_secure(url):
            return {}
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        status, body = await self.request("GET", url, headers, None)
        if status in (401, 403):
            raise self.refused(f"{url} answered HTTP {status}")
        found = json_object(body)
        if status != 200 or found is None:
            raise self.failed(f"{url} answered HTTP {status}")
        return found


def named(claims: Mapping[str, Any], claim: str) -> str:
    """A name in a claim; a number is accepted, since some providers number their users.

    Raises:
        AuthenticationFailed: the claim holds no name.
    """
    if is_unverified(claims, claim):
        raise AuthenticationFailed(f"{_NOT_SAID}: {UNVERIFIED}")
    said = claims.get(claim)
    numbered = isinstance(said, int) and not isinstance(said, bool)
    try:
        return user_of({claim: str(said) if numbered else said}, claim)
    except AuthenticationFailed:
        raise AuthenticationFailed(f"{_NOT_SAID} (no claim {claim!r})") from None
