"""An OAuth client: asks authorization servers for tokens and metadata for one upstream.

Owns: the requests, and what is made of their answers. Never imports the protocol's eras; never logs
or repeats a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ssl import SSLContext
from typing import Any, Literal

from armory.errors import UpstreamUnavailable
from armory.logger import Logger
from armory.oauth.exchange import NoAnswer, Route, basic, exchange, json_object
from armory.oauth.metadata import CannotAnswer, Undiscovered, text
from armory.upstreams.oauth.discovery import AUTHORIZATION_SERVER, AuthServerMetadata

_log = Logger(__name__)
_LEAD_S = 30.0
"""How long before it expires a token is renewed."""
_LATER = (408, 425, 429)
_LATER_ERRORS = frozenset(("temporarily_unavailable", "server_error", "slow_down"))
_CLIENT_ERRORS = frozenset(
    ("invalid_client", "unauthorized_client", "incorrect_client_credentials")
)
Refused = Literal["shown", "client", "now"]


class NoToken(UpstreamUnavailable):
    """No access token could be obtained."""


class TokenRefused(NoToken):
    """The authorization server answered and issued no token.

    Attributes:
        what: it refuses: what it was shown (a code, a login, a token), the gateway as its client,
            or nothing but this once.
    """

    what: Refused = "shown"


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The successful answer of a token endpoint.

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
        """Seconds for which the token is used: it is renewed shortly before it expires."""
        return self.lifetime_s - min(_LEAD_S, self.lifetime_s / 4)


class TokenClient:
    """Requests to authorization servers on behalf of one upstream.

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
        """Request a token; the answer's `token_type` must be `kind`.

        Raises:
            NoToken: the authorization server refused.
        """
        headers = {"Accept": "application/json", **headers}  # GitHub answers a form otherwise
        url, role = place.token_url, place.role
        status, body = await self.request("POST", url, headers, form, role=role)
        answer = json_object(body) or {}
        token = answer.get("access_token")
        if status != 200 or not isinstance(token, str) or not token:
            reason = f"{url} gave no token: {error_text(status, answer)}"
            what = _refused_by(status, answer)
            if what is None:
                raise self.failed(reason, url, role)
            raise self.refused(reason, what, url, role)
        said = answer.get("token_type", kind)
        if not isinstance(said, str) or said.lower() != kind.lower():
            reason = f"{url} gave a token of type {str(said)[:40]!r}"
            raise self.refused(reason, place=url, role=role)
        lifetime, refresh = _seconds(answer.get("expires_in")), answer.get("refresh_token")
        scope = answer.get("scope")
        _log.info("upstream_token_obtained", upstream=self._server, expires_in_s=lifetime)
        return TokenResponse(
            token,
            float("inf") if lifetime is None else lifetime,
            refresh if isinstance(refresh, str) else "",
            tuple(scope.split()) if isinstance(scope, str) else (),
            text(answer.get("id_token")),
            text(answer.get("issued_token_type")),
        )

    async def fetch(self, url: str, role: str = AUTHORIZATION_SERVER) -> Mapping[str, Any] | None:
        """Fetch a JSON object; satisfies `metadata.Fetch`."""
        accepted = {"Accept": "application/json"}
        status, body = await self.request("GET", url, accepted, None, role=role)
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
        role: str = AUTHORIZATION_SERVER,
    ) -> tuple[int, bytes]:
        """(status, beginning of the body) of one exchange with an authorization server.

        Raises:
            NoToken: there was no answer.
        """
        try:
            answer = await exchange(method, url, headers, form=form, json=json, route=self._route)
        except NoAnswer as error:
            self._look_again()
            raise self.failed(str(error), url.partition("?")[0], role) from None
        return answer.status, answer.body

    def _look_again(self) -> None:
        """Load `tls.ca_file` again: the file may be replaced while a gateway runs."""
        if self._trusted is not None:
            with suppress(UpstreamUnavailable):
                self._route = replace(self._route, tls=self._trusted())

    def failed(self, reason: str, place: str = "", role: str = AUTHORIZATION_SERVER) -> NoToken:
        """The error that says why there is no token.

        Args:
            reason: for administrators.
            place: the URL in it, which callers are not told.
            role: what they are told instead.
        """
        message, told = self._message(reason), self._message(_without(place, reason, role))
        return NoToken(message, upstream=self._server, told=told)

    def undiscovered(self, error: Undiscovered, role: str = AUTHORIZATION_SERVER) -> NoToken:
        """As `failed`, where metadata are missing or do not fit: their texts are full of URLs."""
        reason = str(error)
        now = isinstance(error, CannotAnswer)
        return self.failed(
            reason, reason, f"{role} {'cannot answer now' if now else 'could not be discovered'}"
        )

    def refused(
        self,
        reason: str,
        what: Refused = "shown",
        place: str = "",
        role: str = AUTHORIZATION_SERVER,
    ) -> TokenRefused:
        """As `failed`, where the authorization server answered and issued no token."""
        message, told = self._message(reason), self._message(_without(place, reason, role))
        error = TokenRefused(message, upstream=self._server, told=told)
        error.what = what
        return error

    def _message(self, reason: str) -> str:
        return f"upstream {self._server!r}: no access token: {reason}"


def _without(place: str, reason: str, role: str) -> str:
    return reason.replace(place, role) if place else reason


def secret_method(place: AuthServerMetadata) -> str:
    """The client authentication method for a client with a secret."""
    basic = not place.methods or "client_secret_basic" in place.methods
    return "client_secret_basic" if basic else "client_secret_post"


def client_authentication(
    method: str, id: str, secret: str, form: dict[str, str]
) -> dict[str, str]:
    """Headers for client authentication by `method`; may also add members to `form`."""
    if method == "client_secret_basic":
        return basic(id, secret)
    form["client_id"] = id
    if method == "client_secret_post":
        form["client_secret"] = secret
    return {}


def _seconds(said: object) -> float | None:
    """A lifetime in seconds, which some servers send as text; None where it is not a usable number
    (10^400 is valid JSON).
    """
    try:
        found = float(said) if isinstance(said, int | float | str) else -1.0
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < float("inf") else None


def _refused_by(status: int, answer: Mapping[str, Any]) -> Refused | None:
    """What was refused, by the error code of the answer (RFC 6749, 5.2); None: the
    server failed.
    """
    error = text(answer.get("error"))
    if not (400 <= status < 500 or (status == 200 and error)):  # GitHub refuses with a 200
        return None
    if status in _LATER or error in _LATER_ERRORS:
        return "now"
    return "client" if error in _CLIENT_ERRORS or (status == 401 and not error) else "shown"


def error_text(status: int, answer: Mapping[str, Any]) -> str:
    """The reason in an error answer of a token endpoint (RFC 6749, 5.2)."""
    said = [answer.get(key) for key in ("error", "error_description")]
    words = [part[:200] for part in said if isinstance(part, str)]
    return f"HTTP {status} {': '.join(words)}".strip()
