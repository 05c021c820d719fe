"""The HTTP client of one upstream: pooled connections, access tokens, redirects.

Owns: the connections, shared by all links of the upstream, whose token a request carries, and where
it is redirected to. Never imports the protocol's eras.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from yarl import URL

from armory.authorities import refused
from armory.domain.principal import Principal
from armory.domain.uris import readable
from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.http1.failing import broken
from armory.http1.pool import Connections, Fields
from armory.http1.proxied import Proxied, failure_text
from armory.http1.reading import Answer
from armory.http1.response import BadAnswer, ClosedEarly, NoConnection
from armory.http1.sending import Body
from armory.protocol.headers import SESSION_HEADER
from armory.protocol.link import FOREVER_S
from armory.upstreams.oauth.discovery import Challenge, challenge_of
from armory.upstreams.oauth.grants import is_personal
from armory.upstreams.oauth.people import PeopleTokens, Vault, tokens_for
from armory.upstreams.oauth.subjects import CALLER
from armory.upstreams.oauth.tokens import Tokens
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_failures import (
    HttpFailure,
    blames_session,
    failure_of,
)
from armory.upstreams.transports.tls import asking_for_tokens, tls_of

EVENTS = "text/event-stream"
JSON_AND_EVENTS = f"application/json, {EVENTS}"
# Below the five seconds after which uvicorn and Node close an idle connection: a request must not
# go out on a connection that the other side is closing.
_KEEPALIVE_S = 4.0
_OWN_HEADERS = {"User-Agent": "armory"}
MAX_URL = 8_192
"""Characters of a URL that an upstream names."""
_REDIRECTS = frozenset((307, 308))
_REDIRECTED_S = 60.0
"""How long a redirect is followed without asking again; an error ends that at once."""

Send = Callable[[Mapping[str, str]], Awaitable[Answer]]
"""Sends a request with these headers."""


def reusable(headers: Mapping[str, str]) -> Fields:
    """Headers that are sent with many requests, converted once."""
    return Fields({**_OWN_HEADERS, **headers})


class HttpClient:
    """Sends the requests of one caller to one upstream.

    Args:
        spec: the upstream; its `headers` are not used here, since they may differ per caller.
        connections: to it.
        tokens: give the access token that is sent; None: none is.
    """

    def __init__(
        self, spec: UpstreamSpec, connections: Connections | Proxied, tokens: Tokens | None
    ) -> None:
        self.tokens = tokens
        self._spec = spec
        self._connections = connections
        self._configured = URL(spec.url or "")
        self._redirected: tuple[URL, float] | None = None

    @property
    def url(self) -> URL:
        """The upstream's URL: as configured, or where it has recently redirected to."""
        moved = self._redirected
        if moved is not None:
            if asyncio.get_running_loop().time() < moved[1]:
                return moved[0]
            self._redirected = None
        return self._configured

    def send(
        self,
        method: str,
        headers: Mapping[str, str],
        data: Body | None,
        timeout_s: float,
        *,
        url: URL | None = None,
        what: str = "the request",
    ) -> Awaitable[Answer]:
        """Send one request; the caller reads and closes the response.

        Args:
            method: HTTP method.
            headers: all headers.
            data: body, or None.
            timeout_s: for the whole exchange, reading included; `FOREVER_S`: without end.
            url: other than the upstream's own.
            what: what is asked, for messages.

        Raises:
            UpstreamUnavailable: no response came, or no access token could be obtained;
                `HttpFailure` 404 where the session is unknown, though a login was asked for.
            UpstreamTimeout: none came in time.
        """
        if self.tokens is None:
            return self._bare(method, headers, data, timeout_s, url=url, what=what)
        return self._authorized(
            self.tokens,
            headers,
            url,
            lambda every: self._bare(method, every, data, timeout_s, url=url, what=what),
        )

    async def _bare(
        self,
        method: str,
        headers: Mapping[str, str],
        data: Body | None,
        timeout_s: float,
        *,
        url: URL | None = None,
        what: str,
    ) -> Answer:
        """Like `send`, without an access token of the upstream's own; follows redirects."""
        target = self.url if url is None else url
        every = headers if type(headers) is Fields else {**_OWN_HEADERS, **headers}
        limit_s = None if timeout_s >= FOREVER_S else timeout_s
        moved: URL | None = None
        while True:
            try:
                response = await self._connections.request(method, target, every, data, limit_s)
            except TimeoutError:
                self._redirected = None
                raise self._timed_out(what, timeout_s) from None
            except (*broken(), ValueError) as error:
                failed = self.failed(error)
                self._redirected = None
                try:
                    raise failed from error
                finally:
                    del failed  # which holds this frame by its trace
            except UpstreamUnavailable:
                self._redirected = None
                raise
            if response.status >= 400:
                self._redirected = None
            elif moved is not None and url is None:
                until = asyncio.get_running_loop().time() + _REDIRECTED_S
                self._redirected = moved, until
            if moved is not None or response.status not in _REDIRECTS:
                return response
            target = moved = self._moved(target, response)
            response.close()

    async def _authorized(
        self, tokens: Tokens, headers: Mapping[str, str], url: URL | None, send: Send
    ) -> Answer:
        """Send with the access token; if it is refused, once more with a new one.

        Args:
            tokens: give the token.
            headers: all others.
            url: other than the upstream's own; one of another origin gets no token.
            send: sends the request with these headers.

        Raises:
            HttpFailure: 404, where it is not the token that is refused, but the session.
            UpstreamUnavailable: as `send`.
            UpstreamTimeout: as `send`.
        """
        if url is not None and url.origin() != self.url.origin():
            return await send(headers)
        token = await tokens.current(self.url)
        response = await send(headers if token is None else _with_token(headers, token))
        if response.status not in (401, 403):
            return response
        challenge = challenge_of(response.headers.get("WWW-Authenticate"))
        if response.status == 403 and not tokens.lacks(challenge):
            return response
        if SESSION_HEADER in headers:
            failure = await self.failure(response)
            if blames_session(failure.status, failure.body):
                raise HttpFailure(self._spec.key, 404, failure.body, None)
        response.close()
        return await send(_with_token(headers, await tokens.renewed(token, self.url, challenge)))

    def _timed_out(self, what: str, timeout_s: float) -> UpstreamTimeout:
        seconds = (
            min(timeout_s, self._spec.connect_timeout_s) if timeout_s >= FOREVER_S else timeout_s
        )
        return UpstreamTimeout(
            f"upstream {self._spec.key!r} did not answer {what} within {seconds:g} s",
            upstream=self._spec.key,
        )

    def failed(self, error: Exception) -> UpstreamUnavailable:
        """The error for a failed exchange, without credentials that a URL may contain."""
        host = self.url.raw_host or ""
        host = f"[{host}]" if ":" in host else host
        where = f"{self.url.scheme}://{host}:{self.url.port}"
        if said := refused(error):
            self._look_again()
            tls = f"upstreams.{self._spec.key}.tls"
            what = f"the certificate of {where} is not trusted ({said}); see {tls}"
            told = "its certificate is not trusted"
        elif isinstance(error, NoConnection):
            what, told = f"no connection to {where} ({error})", f"no connection ({error})"
        elif isinstance(error, ClosedEarly | BadAnswer):
            what, told = f"{where}: {error}", str(error)
        else:
            what, told = failure_text(error, where), "the exchange with it failed"
        key = self._spec.key
        return UpstreamUnavailable(
            f"upstream {key!r}: {what}", upstream=key, told=f"upstream {key!r}: {told}"
        )

    def _look_again(self) -> None:
        """Load `tls.ca_file` again: it may be replaced while the gateway runs."""
        if self._spec.ca_file is not None:
            with suppress(UpstreamUnavailable):
                self._connections.trust(tls_of(self._spec))

    async def failure(self, response: Answer) -> HttpFailure:
        """The error for an HTTP error status; reads the beginning of the body."""
        return await failure_of(self._spec.key, response)

    def _moved(self, target: URL, response: Answer) -> URL:
        location = response.headers.get("Location", "")
        try:
            if len(location) > MAX_URL:
                raise ValueError
            moved = target.join(URL(readable(location))) if location else target
            same = moved.origin() == target.origin()
        except ValueError:
            location, moved, same = "", target, False
        upgraded = (target.scheme, moved.scheme, target.raw_host) == (
            "http",
            "https",
            moved.raw_host,
        )
        if not location or not (same or upgraded):
            response.close()
            raise UpstreamUnavailable(
                f"upstream {self._spec.key!r} redirects to {location[:200] or 'nowhere'!r}, which "
                "is another origin; use that URL in the configuration if it is the intended server",
                upstream=self._spec.key,
                told=f"upstream {self._spec.key!r} redirects to another origin",
            )
        return moved


def _with_token(headers: Mapping[str, str], token: str) -> Mapping[str, str]:
    return {**headers, "Authorization": f"Bearer {token}"}


class UpstreamClient(HttpClient):
    """The client of an upstream. Owns the connections; sends the gateway's own token.

    Args:
        spec: the upstream.
        vault: the stored logins of people.

    Attributes:
        tokens: the access token that is sent; None: none is.
        people: the tokens of single principals, where each has its own (`as_principal`).
    """

    def __init__(self, spec: UpstreamSpec, vault: Vault | None = None) -> None:
        trusted, auth = tls_of(spec), spec.auth
        limits = trusted, spec.connect_timeout_s, _KEEPALIVE_S
        connections = Connections(*limits) if spec.proxy is None else Proxied(spec.proxy, *limits)
        super().__init__(spec, connections, None)
        self.people: PeopleTokens | None = None
        if auth is not None:
            more = asking_for_tokens(spec, trusted)
            if is_personal(auth):
                self.people = PeopleTokens(spec.key, auth, vault, **more)
            else:
                self.tokens = tokens_for(spec.key, auth, **more)

    def as_principal(self, principal: Principal) -> HttpClient:
        """The client that sends a principal's own token over the same connections."""
        if self.people is None:
            return self
        return _PersonClient(self._spec, self._connections, self.people, principal)

    async def challenged(self) -> Challenge:
        """The upstream's challenge in its answer to a request without a token.

        Raises:
            UpstreamUnavailable: no answer came.
        """
        headers = {**self._spec.headers, "Accept": JSON_AND_EVENTS}
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        headers["Content-Type"] = "application/json"
        response = await self._bare(
            "POST", headers, body, self._spec.connect_timeout_s, what="without a token"
        )
        response.close()
        return challenge_of(response.headers.get("WWW-Authenticate"))

    async def close(self) -> None:
        """Close every connection."""
        if isinstance(self._connections, Proxied):
            await self._connections.close()
        else:
            self._connections.close()
        # Transports close in the loop's next turn, aiohttp's TLS ones in the one after.
        for _ in range(2):
            await asyncio.sleep(0)


class _PersonClient(HttpClient):
    """Sends the requests of one principal, with its own token."""

    def __init__(
        self,
        spec: UpstreamSpec,
        connections: Connections | Proxied,
        people: PeopleTokens,
        principal: Principal,
    ) -> None:
        super().__init__(spec, connections, people.of(principal))
        self._people = people
        self._principal = principal

    async def _authorized(
        self, tokens: Tokens, headers: Mapping[str, str], url: URL | None, send: Send
    ) -> Answer:
        caller = CALLER.get()
        if caller is not None and caller.key == self._principal.key:
            return await super()._authorized(tokens, headers, url, send)
        # Outside any call, or in another caller's that closes this session to make room.
        before = CALLER.set(self._people.newest(self._principal))
        try:
            return await super()._authorized(tokens, headers, url, send)
        finally:
            CALLER.reset(before)
