"""A client of authorization servers: asking for tokens and documents on behalf of one upstream.

Owns: the requests, and what is made of their answers. Never imports the protocol's eras; never logs
or repeats a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ssl import SSLContext
from typing import Any

from armory.errors import UpstreamUnavailable
from armory.logger import Logger
from armory.oauth.exchange import NoAnswer, Route, basic, exchange, json_object
from armory.oauth.metadata import CannotAnswer, text
from armory.upstreams.oauth.discovery import AuthServerMetadata

_log = Logger(__name__)
_LEAD_S = 30.0
"""How long before it expires a token is renewed."""


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
        issued_type: what was given out in exchange, or "".
    """

    token: str
    lifetime_s: float = float("inf")
    refresh: str = ""
    scopes: tuple[str, ...] = ()
    id_token: str = field(default="", repr=False)
    issued_type: str = ""

    @property
    def fresh_s(self) -> float:
        """Seconds for which the token is used: until shortly before it expires."""
        return self.lifetime_s - min(_LEAD_S, self.lifetime_s / 4)


class TokenClient:
    """Whoever asks authorization servers for one upstream.

    Args:
        server: key of the upstream, for messages.
        tls: as for the upstream itself.
        proxy: likewise.
        trusted: makes `tls` anew of the file that it was made of; None: there is none.
        timeout_s: for each request.
        named: URLs that the configuration names: only who is inside may point inside.
    """

    def __init__(
        self,
        server: str,
        *,
        tls: SSLContext | bool = True,
        proxy: str | None = None,
        trusted: Callable[[], SSLContext | bool] | None = None,
        timeout_s: float = 15.0,
        named: tuple[str, ...] = (),
    ) -> None:
        self._server = server
        self._route = Route(tls, proxy, timeout_s, named=named)
        self._trusted = trusted
        self._lock = asyncio.Lock()

    async def request_token(
        self,
        place: AuthServerMetadata,
        headers: Mapping[str, str],
        form: Mapping[str, str],
        kind: str = "Bearer",
    ) -> TokenResponse:
        """Ask a token endpoint for a token of a `kind`, as in `token_type`.

        Raises:
            NoToken: it refused.
        """
        headers = {"Accept": "application/json", **headers}  # GitHub answers a form otherwise
        status, body = await self.request("POST", place.token_url, headers, form)
        answer = json_object(body) or {}
        token = answer.get("access_token")
        if status != 200 or not isinstance(token, str) or not token:
            reason = f"{place.token_url} gave no token: {why(status, answer)}"
            raise self.refused(reason) if 400 <= status < 500 else self.failed(reason)
        said = answer.get("token_type", kind)
        if not isinstance(said, str) or said.lower() != kind.lower():
            raise self.refused(f"{place.token_url} gave a token of type {str(said)[:40]!r}")
        lifetime, refresh = answer.get("expires_in"), answer.get("refresh_token")
        scope = answer.get("scope")
        _log.info("upstream_token_obtained", upstream=self._server, expires_in_s=lifetime)
        return TokenResponse(
            token,
            float(lifetime) if isinstance(lifetime, int | float) else float("inf"),
            refresh if isinstance(refresh, str) else "",
            tuple(scope.split()) if isinstance(scope, str) else (),
            text(answer.get("id_token")),
            text(answer.get("issued_token_type")),
        )

    async def fetch(self, url: str) -> Mapping[str, Any] | None:
        """A JSON object, as `metadata.Fetch`."""
        status, body = await self.request("GET", url, {"Accept": "application/json"}, None)
        if status == 429 or status >= 500:
            raise CannotAnswer(f"{url} answered HTTP {status}; try again later")
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
            answer = await exchange(method, url, headers, form=form, json=json, route=self._route)
        except NoAnswer as error:
            self._look_again()
            raise self.failed(str(error)) from None
        return answer.status, answer.body

    def _look_again(self) -> None:
        """Trust whom `tls.ca_file` names by now: it is replaced while a gateway runs."""
        if self._trusted is not None:
            with suppress(UpstreamUnavailable):
                self._route = replace(self._route, tls=self._trusted())

    def failed(self, reason: str) -> NoToken:
        """The error that says why there is no token."""
        message = f"upstream {self._server!r}: no access token: {reason}"
        return NoToken(message, upstream=self._server)

    def refused(self, reason: str) -> TokenRefused:
        """As `failed`, where the authorization server answered and gave none."""
        return TokenRefused(self.failed(reason).message, upstream=self._server)


def secret_method(place: AuthServerMetadata) -> str:
    """How a client with a secret proves who it is there."""
    basic = not place.methods or "client_secret_basic" in place.methods
    return "client_secret_basic" if basic else "client_secret_post"


def client_authentication(
    method: str, id: str, secret: str, form: dict[str, str]
) -> dict[str, str]:
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
