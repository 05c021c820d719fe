"""The pool of keep-alive connections to one upstream, and requests over them.

Owns: connecting, TLS contexts, idle connections, encoding the head of a request. Proxies are left
to aiohttp, whose general client costs three times as much on this path. Never imports the protocol.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from yarl import URL

from armory.authorities import trusted
from armory.http1.connecting import addresses_of, connected, reason
from armory.http1.connection import Connection, Origin
from armory.http1.deadlines import Deadlines
from armory.http1.response import NoConnection, Response
from armory.http1.sending import Body
from armory.tasks import shielded, start

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
"""Methods that send `Content-Length: 0` without a body (RFC 9110 §8.6); some servers insist."""
_HEADS_KEPT = 4
"""Heads that are kept with some headers: a server may redirect each request to another URL."""


class Fields(dict[str, str]):
    """Headers of many requests: their encoded form is cached. Never changed.

    Attributes:
        heads: (origin, head up to the length of the body) by method and URL.
    """

    __slots__ = ("heads",)

    def __init__(self, *args: Mapping[str, str]) -> None:
        super().__init__(*args)
        self.heads: dict[tuple[str, URL], tuple[Origin, bytes]] = {}


class Connections:
    """All connections to one upstream.

    Args:
        tls: context for https, True for the platform's trust, False for none.
        connect_timeout_s: for making a connection, handshake included, in seconds.
        keepalive_s: how long an idle connection is kept, in seconds.
    """

    def __init__(
        self, tls: ssl.SSLContext | bool, connect_timeout_s: float, keepalive_s: float
    ) -> None:
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._keepalive_s = keepalive_s
        self._idle: dict[Origin, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._deadlines = Deadlines()
        self._targets: dict[URL, tuple[Origin, str, str]] = {}

    async def request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: Body | None,
        timeout_s: float | None,
    ) -> Response:
        """Send one request and wait for the headers of the response.

        Args:
            method: HTTP method.
            url: absolute, http or https; a name and password in it are sent, unless `headers` have
                an Authorization of their own.
            headers: without Content-Length; a Host counts before that of the URL; `Fields` where
                they go out again.
            body: or None.
            timeout_s: for the whole exchange after connecting, in seconds; None: no limit.

        Raises:
            NoConnection: none could be made.
            TimeoutError: the deadline passed.
            ClosedEarly, BadAnswer: no usable answer came.
            ValueError: a header holds a line break.
        """
        heads = headers.heads if type(headers) is Fields else None
        known = heads.get((method, url)) if heads is not None else None
        if known is None:
            known = self._head(method, url, headers)
            if heads is not None:
                if len(heads) >= _HEADS_KEPT:
                    heads.clear()
                heads[method, url] = known
        origin, head = known
        if body is not None:
            head = b"%bContent-Length: %d\r\n\r\n" % (head, len(body))
        elif method in _WITH_BODY:
            head += b"Content-Length: 0\r\n\r\n"
        else:
            head += b"\r\n"
        connection = self._take(origin) or await self._connect(origin)
        response = connection.send(head, body, timeout_s)
        try:
            await response.headers_arrived()
        except BaseException:
            response.close()
            raise
        return response

    def _head(self, method: str, url: URL, headers: Mapping[str, str]) -> tuple[Origin, bytes]:
        origin, target, host = self._targets.get(url) or self._remember(url)
        lines = [f"{method} {target} HTTP/1.1", ""]
        for name, value in headers.items():
            if len(name) == 4 and name.lower() == "host":
                host = value
            else:
                lines.append(f"{name}: {value}")
        lines[1] = f"Host: {host}"  # first, and once: servers refuse two
        if url.user is not None and not any(name.lower() == "authorization" for name in headers):
            pair = f"{url.user}:{url.password or ''}".encode()
            lines.append(f"Authorization: Basic {base64.b64encode(pair).decode()}")
        text = "\r\n".join(lines) + "\r\n"
        if text.count("\n") != len(lines) or text.count("\r") != len(lines):
            raise ValueError("a header holds a line break")
        return origin, text.encode("utf-8", "surrogateescape")

    def _freed(self, connection: Connection) -> None:
        """Keep a connection for the next request."""
        loop = connection.loop
        connection.idle_since = loop.time()
        self._idle.setdefault(connection.origin, []).append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(self._keepalive_s, self._close_idle)

    def _closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        idle = self._idle.get(connection.origin)
        if idle is not None and connection in idle:
            idle.remove(connection)

    def trust(self, tls: ssl.SSLContext | bool) -> None:
        """Use different certificate authorities for new connections."""
        self._tls = tls

    def close(self) -> None:
        """Close every connection."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        self._deadlines.close()
        for connection in tuple(self._open):
            connection.abort()

    def _remember(self, url: URL) -> tuple[Origin, str, str]:
        """The parts of a URL: origin, request target and Host; cached."""
        if url.scheme not in ("http", "https") or url.raw_host is None or url.port is None:
            raise NoConnection(f"{url.scheme or 'no'} URL; expected http:// or https://")
        name = host = url.raw_host
        if ":" in name:
            name = name.replace("%25", "%", 1)  # a zone is written so in URLs (RFC 6874)
            host = f"[{_without_zone(name)}]"
        port = "" if url.is_default_port() else f":{url.port}"
        origin = (url.scheme, name, url.port)
        if len(self._targets) > 64:
            self._targets.clear()
        known = (origin, url.raw_path_qs or "/", f"{host}{port}")
        self._targets[url] = known
        return known

    def _take(self, origin: Origin) -> Connection | None:
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            fresh = connection.loop.time() - connection.idle_since < self._keepalive_s
            if fresh and connection.usable:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: Origin) -> Connection:
        _, host, port = origin
        missing = f"{host!r} is not looked up"
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                addresses = await addresses_of(host, port)
                missing = "not"
                connection = await self._over(await connected(addresses), origin)
        except ssl.SSLCertVerificationError:
            raise
        except TimeoutError:
            raise NoConnection(f"{missing} within {self._connect_timeout_s:g} s") from None
        except OSError as error:
            raise NoConnection(reason(error)) from error
        if connection.usable:
            self._open.add(connection)
        return connection

    async def _over(self, reached: socket.socket, origin: Origin) -> Connection:
        """The connection over a socket, which it takes.

        Who is cancelled leaves it to be made, and ended then: asyncio's TLS transport that is
        cancelled as it begins goes on, on a socket whose number is another's by then.
        """
        making = start(self._made(reached, origin), "connection to an upstream")
        try:
            return await shielded(making)
        except asyncio.CancelledError:
            making.add_done_callback(_end)
            raise
        finally:
            del making  # whose error holds this frame by its trace

    async def _made(self, reached: socket.socket, origin: Origin) -> Connection:
        scheme, host, _ = origin
        try:
            tls: dict[str, Any] = {}
            if scheme == "https":
                # certificates are for names without the dot at their end (RFC 6066 §3)
                name = _without_zone(host).removesuffix(".")
                tls = {"ssl": self._context(), "server_hostname": name}
                tls["ssl_handshake_timeout"] = self._connect_timeout_s
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(
                    origin, self._deadlines, on_free=self._freed, on_closed=self._closed
                ),
                sock=reached,
                **tls,
            )
        except BaseException:
            reached.close()
            raise
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._tls is True:
            return trusted()
        if self._tls is False:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self._tls = context
        return self._tls

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = None
        oldest = loop.time() - self._keepalive_s
        left = False
        for idle in self._idle.values():
            for connection in [c for c in idle if c.idle_since <= oldest]:
                idle.remove(connection)
                connection.abort()
            left = left or bool(idle)
        if left:
            self._sweep = loop.call_later(self._keepalive_s / 2, self._close_idle)


def _without_zone(host: str) -> str:
    """A host without its IPv6 zone, which has no meaning on other machines."""
    return host.partition("%")[0]


def _end(making: asyncio.Task[Connection]) -> None:
    """Close a connection that nobody needs any more."""
    if not making.cancelled() and making.exception() is None:
        making.result().abort()
