"""HTTP/1.1 over kept-alive sockets, for the one thing that Armory does all day: POST, read answer.

Owns: connections to one upstream, requests on them, responses as they arrive, with back-pressure.
Parsing is httptools' (llhttp). Proxies are left to aiohttp (see `http_client`), whose general
client costs three times as much on this path. Never imports the protocol.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Any

import httptools
from multidict import CIMultiDict
from yarl import URL

_HIGH_WATER = 1024 * 1024
_MAX_HEADERS = 256 * 1024


class NoConnection(OSError):
    """No connection could be made."""


class ClosedEarly(ConnectionError):
    """The other side closed the connection before the answer was complete."""


class BadAnswer(ConnectionError):
    """What came is not HTTP/1.1."""


class Response:
    """One response; its body is read as it arrives. Looks like aiohttp's where both are used.

    Attributes:
        status: HTTP status.
        headers: case-insensitive.
        content: the body's reader, which is this object itself.
    """

    __slots__ = (
        "_chunks",
        "_connection",
        "_eof",
        "_error",
        "_inflate",
        "_size",
        "_timer",
        "_waiter",
        "headers",
        "status",
    )

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self._connection: Connection | None = connection
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._eof = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._inflate: Any = None

    @property
    def content(self) -> Response:
        """The reader of the body."""
        return self

    @property
    def content_type(self) -> str:
        """Media type without parameters, in lower case; "" when there is none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def content_length(self) -> int | None:
        """As declared, in bytes."""
        value = self.headers.get("Content-Length")
        return int(value) if value is not None and value.isdigit() else None

    @property
    def closed(self) -> bool:
        """Whether the connection is no longer this response's."""
        return self._connection is None

    def is_eof(self) -> bool:
        """Whether the whole body has arrived."""
        return self._eof

    def at_eof(self) -> bool:
        """Whether the whole body has been read."""
        return self._eof and not self._chunks

    async def readany(self) -> bytes:
        """What has arrived, at least one byte; b"" at the end.

        Raises:
            TimeoutError: the deadline passed.
            ClosedEarly: the body ended before its end.
        """
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._eof:
                return b""
            await self._wait()
        data = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._connection is not None:
            self._connection.resume()
        return data

    async def read(self) -> bytes:
        """The whole body. Raises as `readany`."""
        parts: list[bytes] = []
        while chunk := await self.readany():
            parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Be done with it; an unfinished exchange costs the connection."""
        self._done_waiting()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    release = close

    # --- fed by the connection

    async def headers_arrived(self) -> None:
        """Wait for status and headers."""
        while not self.status and self._error is None:
            await self._wait()
        if self._error is not None and not self.status:
            raise self._error

    async def _wait(self) -> None:
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Something changed."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def start_timer(self, timeout_s: float) -> None:
        """Fail the exchange `timeout_s` seconds from now."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.fail(TimeoutError())
        self.close()

    def _done_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin(self, status: int, headers: CIMultiDict[str]) -> None:
        """Status and headers are complete."""
        self.status = status
        self.headers = headers
        coding = headers.get("Content-Encoding", "").strip().lower()
        if coding in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(wbits=47 if coding != "deflate" else 15)
        self.wake()

    def feed(self, chunk: bytes) -> bool:
        """More of the body. True when the reader has enough for now."""
        if self._inflate is not None:
            # Bounded, so that a small body cannot unfold into all memory before anyone reads it.
            chunk = self._inflate.decompress(chunk, 16 * _HIGH_WATER)
            if self._inflate.unconsumed_tail:
                raise BadAnswer("a compressed body unfolds too far")
        if chunk:
            self._chunks.append(chunk)
            self._size += len(chunk)
            self.wake()
        return self._size > _HIGH_WATER

    def finish(self) -> None:
        """The body is complete; the connection is free."""
        self._eof = True
        self._connection = None
        self._done_waiting()
        self.wake()

    def fail(self, error: Exception) -> None:
        """The exchange is broken; what has arrived can still be read."""
        if not self._eof and self._error is None:
            self._error = error
        self._done_waiting()
        self.wake()


class Connection(asyncio.Protocol):
    """One socket, one exchange at a time.

    Args:
        home: where it goes when it is free.
        place: key of its origin there.
    """

    def __init__(self, home: Connections, place: tuple[str, str, int]) -> None:
        self._home = home
        self.place = place
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._response: Response | None = None
        self._fields: list[tuple[str, str]] = []
        self._fields_size = 0
        self._paused = False
        self._endless = False
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether a request can go out on it."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._response is None

    def send(self, head: bytes, body: bytes | None, timeout_s: float | None) -> Response:
        """Begin an exchange; the response fills as the answer arrives."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ClosedEarly("the connection is closed")
        response = self._response = Response(self)
        self._endless = False
        if timeout_s is not None:
            response.start_timer(timeout_s)
        transport.write(head + body if body else head)
        return response

    def resume(self) -> None:
        """Read on."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
        self._response = None

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes from the other side."""
        if self._response is None:
            # Nobody asked: whatever this is, the connection cannot be trusted any more.
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, BadAnswer, zlib.error) as error:
            self._break(BadAnswer(f"not a usable HTTP answer: {error}"))

    def eof_received(self) -> bool:
        """The other side is done; close as well."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._home.forget(self)
        response, self._response = self._response, None
        self._transport = None
        if response is None:
            return
        if exc is None and response.status and self._endless:
            response.finish()
        else:
            said = "in the middle of its answer" if response.status else "without an answer"
            response.fail(ClosedEarly(f"it closed the connection {said}"))
            response.close()

    # --- httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field."""
        self._fields_size += len(name) + len(value)
        if self._fields_size > _MAX_HEADERS:
            raise BadAnswer(f"headers of more than {_MAX_HEADERS} bytes")
        self._fields.append((name.decode("latin-1"), value.decode("utf-8", "surrogateescape")))

    def on_headers_complete(self) -> None:
        """Status and headers are there."""
        fields, self._fields, self._fields_size = self._fields, [], 0
        status = self._parser.get_status_code()
        if status < 200 or self._response is None:
            return
        headers = CIMultiDict(fields)
        self._endless = "Content-Length" not in headers and "Transfer-Encoding" not in headers
        self._response.begin(status, headers)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        response = self._response
        if response is not None and response.feed(body) and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The whole answer is there."""
        response = self._response
        if response is None or not response.status:
            return
        self._response = None
        keep = self._parser.should_keep_alive()
        response.finish()
        self.resume()
        if keep:
            self._home.give(self)
        elif self._transport is not None:
            self._transport.close()

    def _break(self, error: Exception) -> None:
        response = self._response
        if response is not None:
            response.fail(error)
            response.close()
        self.abort()


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
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}
        self._open: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._targets: dict[URL, tuple[tuple[str, str, int], str]] = {}

    async def request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float | None,
    ) -> Response:
        """Send one request and wait for the answer's headers.

        Args:
            method: HTTP method.
            url: absolute, http or https.
            headers: without Host and Content-Length.
            body: or None.
            timeout_s: for the whole exchange after connecting, in seconds; None: no limit.

        Raises:
            NoConnection: none could be made.
            TimeoutError: the deadline passed.
            ClosedEarly, BadAnswer: no usable answer came.
            ValueError: a header holds a line break.
        """
        known = self._targets.get(url)
        if known is None:
            known = self._remember(url)
        place, target = known
        fields = [f"{method} {target}"]
        fields += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            fields.append(f"Content-Length: {len(body)}")
        text = "\r\n".join(fields) + "\r\n\r\n"
        breaks = len(fields) + 2  # one a field, one inside the first, one at the end
        if text.count("\n") != breaks or text.count("\r") != breaks:
            raise ValueError("a header holds a line break")
        connection = self._take(place) or await self._connect(place)
        response = connection.send(text.encode("utf-8", "surrogateescape"), body, timeout_s)
        try:
            await response.headers_arrived()
        except BaseException:
            response.close()
            raise
        return response

    def give(self, connection: Connection) -> None:
        """A connection is free again."""
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(connection.place, []).append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(self._keepalive_s, self._close_idle)

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        self._open.discard(connection)
        idle = self._idle.get(connection.place)
        if idle is not None and connection in idle:
            idle.remove(connection)

    def close(self) -> None:
        """Close every connection."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        for connection in tuple(self._open):
            connection.abort()

    def _remember(self, url: URL) -> tuple[tuple[str, str, int], str]:
        if url.scheme not in ("http", "https") or url.raw_host is None or url.port is None:
            raise NoConnection(f"{url.scheme or 'no'} URL; expected http:// or https://")
        host = f"[{url.raw_host}]" if ":" in url.raw_host else url.raw_host
        port = "" if url.is_default_port() else f":{url.port}"
        place = (url.scheme, url.raw_host, url.port)
        if len(self._targets) > 64:
            self._targets.clear()
        known = (place, f"{url.raw_path_qs or '/'} HTTP/1.1\r\nHost: {host}{port}")
        self._targets[url] = known
        return known

    def _take(self, place: tuple[str, str, int]) -> Connection | None:
        idle = self._idle.get(place)
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
            connection.abort()
        return None

    async def _connect(self, place: tuple[str, str, int]) -> Connection:
        scheme, host, port = place
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self, place),
                    host,
                    port,
                    ssl=self._context() if scheme == "https" else None,
                    # An address needs no race, and a race leaks a socket when it is cancelled.
                    happy_eyeballs_delay=None if _is_address(host) else 0.25,
                )
        except ssl.SSLCertVerificationError:
            raise
        except TimeoutError:
            raise NoConnection(f"not within {self._connect_timeout_s:g} s") from None
        except OSError as error:
            raise NoConnection(error.strerror or str(error)) from error
        self._open.add(connection)
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._tls is True:
            self._tls = ssl.create_default_context()
        elif self._tls is False:
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


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
