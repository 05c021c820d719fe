"""HTTP/1.1 over kept-alive sockets, for the one thing that Armory does all day: POST, read answer.

Owns: one connection, the exchange on it, the response as it arrives, with back-pressure. Parsing is
httptools' (llhttp); `http1_pool` keeps the connections. Never imports the protocol.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from typing import Any, Protocol

import httptools
from multidict import CIMultiDict

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


class Home(Protocol):
    """Where connections are kept."""

    def give(self, connection: Connection) -> None:
        """A connection is free again."""
        ...

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        ...


class Connection(asyncio.Protocol):
    """One socket, one exchange at a time.

    Args:
        home: where it goes when it is free.
        place: key of its origin there.
    """

    def __init__(self, home: Home, place: tuple[str, str, int]) -> None:
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
