"""Access tokens for one upstream: got when they are needed, kept until shortly before they expire.

Owns: requests to authorization servers, and the client-credentials grant. Never imports the
protocol's eras; never logs or repeats a secret.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

import structlog
from yarl import URL

from armory.errors import UpstreamUnavailable
from armory.oauth.exchange import NoAnswer, Route, basic, exchange, json_object
from armory.oauth.metadata import Undiscovered, text
from armory.upstreams.oauth.discovery import (
    AuthServerMetadata,
    Challenge,
    canonical,
    discover,
)
from armory.upstreams.oauth.grants import ClientCredentials

_log = structlog.get_logger(__name__)
LEAD_S = 30.0
_AGAIN_S = 5.0
_ASSERTION_S = 120
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class NoToken(UpstreamUnavailable):
    """No access token could be had."""


class TokenRefused(NoToken):
    """The authorization server answered, and gave none."""


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """What a token endpoint gave out.

    Attributes:
        token: the access token.
        lifetime_s: seconds until it expires; infinite where it does not say.
        refresh: refresh token, or "".
        scopes: that it grants, where it says so.
        id_token: who the person is, or "".
    """

    token: str
    lifetime_s: float = float("inf")
    refresh: str = ""
    scopes: tuple[str, ...] = ()
    id_token: str = field(default="", repr=False)


class Tokens(ABC):
    """The access token of one upstream, shared by all its callers: it is the gateway's own.

    Args:
        server: key of the upstream, for messages.
        tls: as for the upstream itself.
        proxy: likewise.
        timeout_s: for each request.
    """

    def __init__(
        self,
        server: str,
        *,
        tls: SSLContext | bool = True,
        proxy: str | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        self._server = server
        self._route = Route(tls, proxy, timeout_s)
        self._lock = asyncio.Lock()

    @abstractmethod
    async def current(self, url: URL) -> str | None:
        """The token to send, a new one where it is about to expire; None where the upstream must
        be asked first who gives it out.

        Raises:
            NoToken: none could be had.
        """

    @abstractmethod
    def lacks(self, challenge: Challenge) -> bool:
        """Whether a challenge names scopes that were not asked for, and may be."""

    @abstractmethod
    async def renewed(self, refused: str | None, url: URL, challenge: Challenge) -> str:
        """A token in place of the one that the upstream refused.

        Raises:
            NoToken: none could be had.
        """

    async def given(
        self, place: AuthServerMetadata, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> TokenResponse:
        """Ask a token endpoint.

        Raises:
            NoToken: it refused.
        """
        status, body = await self.request("POST", place.token_url, headers, form)
        answer = json_object(body) or {}
        token = answer.get("access_token")
        if status != 200 or not isinstance(token, str) or not token:
            said = self.failed(f"{place.token_url} gave no token: {why(status, answer)}")
            if 400 <= status < 500:
                raise TokenRefused(said.message, upstream=self._server)
            raise said
        kind = answer.get("token_type", "Bearer")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise self.failed(f"{place.token_url} gave a token of type {str(kind)[:40]!r}")
        lifetime, refresh = answer.get("expires_in"), answer.get("refresh_token")
        scope = answer.get("scope")
        _log.info("upstream_token_obtained", upstream=self._server, expires_in_s=lifetime)
        return TokenResponse(
            token,
            float(lifetime) if isinstance(lifetime, int | float) else float("inf"),
            refresh if isinstance(refresh, str) else "",
            tuple(scope.split()) if isinstance(scope, str) else (),
            text(answer.get("id_token")),
        )

    async def fetch(self, url: str) -> Mapping[str, Any] | None:
        """A JSON object, as `discovery.Fetch`."""
        status, body = await self.request("GET", url, {"Accept": "application/json"}, None)
        return json_object(body) if status == 200 else None

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        form: Mapping[str, str] | None,
        json: Any = None,
    ) -> tuple[int, bytes]:
        """(status, beginning of the body) of one exchange with an authorization server.

        Raises:
            NoToken: there was no answer.
        """
        try:
            return await exchange(method, url, headers, form=form, json=json, route=self._route)
        except NoAnswer as error:
            raise self.failed(str(error)) from None

    def failed(self, reason: str) -> NoToken:
        """The error that says why there is no token."""
        message = f"upstream {self._server!r}: no access token: {reason}"
        return NoToken(message, upstream=self._server)


class MachineTokens(Tokens):
    """By client credentials; see `Tokens`.

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
                    self._until = min(time.monotonic() + _AGAIN_S, self._expires)
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
                    self._place = await self._found(url, challenge)
                await self._get(url)
            assert self._token is not None
            return self._token

    async def _found(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        try:
            place = await discover(url, challenge, self._grant.issuer, self._issuer, self.fetch)
        except Undiscovered as error:
            raise self.failed(str(error)) from None
        self._issuer = place.issuer
        return place

    async def _get(self, url: URL) -> None:
        """Have the authorization server give out a token."""
        place = self._place or AuthServerMetadata(self._grant.token_url, self._grant.issuer)
        scopes = self._grant.scopes or self._scopes or place.scopes
        form = {"grant_type": "client_credentials", "resource": place.resource or canonical(url)}
        if scopes:
            form["scope"] = " ".join(scopes)
        given = await self.given(place, self._authenticated(place, form), form)
        self._token = given.token
        self._expires = time.monotonic() + given.lifetime_s
        self._until = self._expires - min(LEAD_S, given.lifetime_s / 4)

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
        return authenticated(method, grant.client_id, grant.client_secret, form)

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


def secret_method(place: AuthServerMetadata) -> str:
    """How a client with a secret proves who it is there."""
    basic = not place.methods or "client_secret_basic" in place.methods
    return "client_secret_basic" if basic else "client_secret_post"


def authenticated(method: str, id: str, secret: str, form: dict[str, str]) -> dict[str, str]:
    """Headers (and members of `form`) with which a client says who it is, in a `method`."""
    if method == "client_secret_basic":
        return basic(id, secret)
    form["client_id"] = id
    if method == "client_secret_post":
        form["client_secret"] = secret
    return {}


def why(status: int, answer: Mapping[str, Any]) -> str:
    """What an error answer of a token endpoint says (RFC 6749, 5.2)."""
    said = [answer.get(key) for key in ("error", "error_description")]
    words = [part[:200] for part in said if isinstance(part, str)]
    return f"HTTP {status} {': '.join(words)}".strip()
