"""Access tokens for one upstream: requested when needed, cached until shortly before they expire.

Owns: what every kind of token does, and the client-credentials grant. Never imports the protocol's
eras; never logs or repeats a secret.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from typing import Any

from yarl import URL

from armory.oauth.metadata import Undiscovered
from armory.upstreams.oauth.client import (
    NoToken,
    TokenClient,
    client_authentication,
    secret_method,
)
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, canonical, discover
from armory.upstreams.oauth.grants import ClientCredentials
from armory.upstreams.oauth.providers import resource_for

_RETRY_S = 5.0
_ASSERTION_S = 120
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Tokens(TokenClient, ABC):
    """The access token of one upstream, shared by all its callers: it is the gateway's own.

    Made with the arguments of `TokenClient`.
    """

    @abstractmethod
    async def current(self, url: URL) -> str | None:
        """The token to send, renewed where it is about to expire; None where the upstream must be
        asked first which server issues it.

        Raises:
            NoToken: none could be obtained.
        """

    @abstractmethod
    def lacks(self, challenge: Challenge) -> bool:
        """Whether a challenge asks for scopes that were not requested yet, and may be."""

    @abstractmethod
    async def renewed(self, refused: str | None, url: URL, challenge: Challenge) -> str:
        """A new token in place of the one that the upstream refused.

        Raises:
            NoToken: none could be obtained.
        """


class ClientCredentialsTokens(Tokens):
    """The token of the client-credentials grant; see `Tokens`.

    Args:
        server: key of the upstream, for messages.
        grant: as configured.
        more: as for `Tokens`.
    """

    def __init__(self, server: str, grant: ClientCredentials, **more: Any) -> None:
        super().__init__(server, **more)
        self._grant = grant
        self._place: AuthServerMetadata | None = None
        self._issuer = ""
        self._scopes: tuple[str, ...] = ()
        self._token: str | None = None
        self._until = self._expires = 0.0

    async def current(self, url: URL) -> str | None:
        """As `Tokens.current`."""
        if self._token is not None and time.monotonic() < self._until:
            return self._token
        if self._place is None and not self._grant.token_url:
            return None
        async with self._lock:
            if self._token is None or time.monotonic() >= self._until:
                try:
                    await self._get(url)
                except NoToken:
                    if time.monotonic() >= self._expires:
                        raise
                    self._until = min(time.monotonic() + _RETRY_S, self._expires)
            return self._token

    def lacks(self, challenge: Challenge) -> bool:
        """As `Tokens.lacks`."""
        asked = self._grant.scopes or self._scopes or (self._place.scopes if self._place else ())
        return not self._grant.scopes and not set(challenge.scopes) <= set(asked)

    async def renewed(self, refused: str | None, url: URL, challenge: Challenge) -> str:
        """As `Tokens.renewed`."""
        async with self._lock:
            if self._token is None or self._token == refused:
                self._token = None
                if challenge.scopes:
                    self._scopes = tuple(dict.fromkeys((*self._scopes, *challenge.scopes)))
                if not self._grant.token_url:
                    self._place = await self._discovered(url, challenge)
                await self._get(url)
            assert self._token is not None
            return self._token

    async def _discovered(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        try:
            place = await discover(url, challenge, self._grant.issuer, self._issuer, self.fetch)
        except Undiscovered as error:
            raise self.undiscovered(error) from None
        self._issuer = place.issuer
        return place

    async def _get(self, url: URL) -> None:
        """Request a token."""
        place = self._place or AuthServerMetadata(self._grant.token_url, self._grant.issuer)
        scopes = self._grant.scopes or self._scopes or place.scopes
        resource = place.resource or canonical(url)
        form = {
            "grant_type": "client_credentials",
            **resource_for(place.token_url, resource, self._grant.scopes),
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        given = await self.request_token(place, self._authenticated(place, form), form)
        self._token = given.token
        now = time.monotonic()
        self._expires, self._until = now + given.lifetime_s, now + given.fresh_s

    def _authenticated(self, place: AuthServerMetadata, form: dict[str, str]) -> dict[str, str]:
        """Headers (and members of `form`) that prove who the client is."""
        grant = self._grant
        if grant.private_key:
            form["client_assertion_type"] = _ASSERTION_TYPE
            form["client_assertion"] = self._assertion(place)
            return {}
        method = grant.client_auth
        if method == "auto":
            method = secret_method(place)
        return client_authentication(method, grant.client_id, grant.client_secret, form)

    def _assertion(self, place: AuthServerMetadata) -> str:
        now = int(time.time())
        claims = {
            "iss": self._grant.client_id,
            "sub": self._grant.client_id,
            "aud": place.issuer or place.token_url,
            "jti": secrets.token_urlsafe(16),
            "iat": now,
            "exp": now + _ASSERTION_S,
        }
        return self._grant.signed(claims)
