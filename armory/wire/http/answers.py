"""JSON answers written in one go: a prepared head, then the body's parts.

Owns: `JsonAnswer`, and large messages in pieces, as bodies and as events. aiohttp builds each head
from a case-insensitive multidict; an answer without headers of its own needs none of that, and a
large result is copied once, into what is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from functools import partial
from http.client import responses

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import SERVER_SOFTWARE

from armory.protocol.jsonrpc import Part, Parted
from armory.wire.messages import PIECE_BYTES, pieces
from armory.wire.sse import frame, frame_pieces
from armory.wire.streams import EventStream

JSON_TYPE = "application/json"
_HEAD = f"Content-Type: {JSON_TYPE}\r\nServer: {SERVER_SOFTWARE}\r\nDate: %s\r\nContent-Length: "
_CLOSED = "the client has closed the connection"
_lines: dict[int, bytes] = {}


class _Clock:
    """The constant part of the head, rebuilt each second because of its date."""

    second = 0
    text = b""


def _constant() -> bytes:
    now = int(time.time())
    if now != _Clock.second:
        _Clock.second = now
        _Clock.text = (_HEAD % formatdate(now, usegmt=True)).encode("ascii")
    return _Clock.text


def _status_line(status: int) -> bytes:
    line = _lines.get(status)
    if line is None:
        line = f"HTTP/1.1 {status} {responses.get(status, '')}\r\n".encode("ascii")
        _lines[status] = line
    return line


class JsonAnswer(web.StreamResponse):
    """A complete JSON body.

    Args:
        parts: the body, in as many pieces as it happens to be in; whoever gives them does not
            change them afterwards.
        status: of HTTP.
        headers: beside Content-Type; with any, and toward HTTP/1.0 clients or those that close,
            aiohttp writes the head.
    """

    def __init__(
        self, parts: Sequence[Part], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status=status)
        if headers:
            self.headers.update(headers)
        self._parts = parts
        self._own = not headers
        self._bodiless = False
        self._request: web.BaseRequest | None = None
        self._written = False

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self._parts)

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection stays open afterwards."""
        return True if self._own else super().keep_alive

    @property
    def prepared(self) -> bool:
        """Whether writing has begun."""
        return self._written or self._request is not None or super().prepared

    def write_at_once(self, request: web.BaseRequest) -> bool:
        """Write everything if it fits one piece and the head is the usual one; returns False if
        nothing was written.

        Raises:
            ConnectionResetError: the client has gone.
        """
        size = sum(map(len, self._parts))
        if self._written or size > PIECE_BYTES or not self._plain(request):
            return False
        self._written = True
        transport = _open(request)
        head = self._head(request, size)
        transport.write(b"".join((head, *self._parts)))
        return True

    def _plain(self, request: web.BaseRequest) -> bool:
        """Whether the head is the usual one."""
        usual = request.version == HttpVersion11 and request.keep_alive
        return self._own and usual and request.method == "POST"

    def _head(self, request: web.BaseRequest, size: int) -> bytes:
        """The head of a body of `size` bytes; both count as written."""
        head = b"%b%b%d\r\n\r\n" % (_status_line(self.status), _constant(), size)
        request.writer.output_size += len(head) + size
        return head

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """As aiohttp's; the head is sent with the body."""
        if self._written:
            return request.writer
        if self._plain(request):
            self._request = request
            return request.writer
        self._own = False
        self._bodiless = request.method == "HEAD"
        self.headers["Content-Type"] = JSON_TYPE
        self.content_length = sum(map(len, self._parts))
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the rest: here, everything."""
        if self._written:
            return
        self._written = True
        if not self._own:
            for part in () if self._bodiless else self._parts:
                await self.write(part)
            await super().write_eof(data)
            return
        request, self._request = self._request, None
        assert request is not None
        size = sum(map(len, self._parts))
        transport = _open(request)
        head = self._head(request, size)
        if size <= PIECE_BYTES:
            transport.write(b"".join((head, *self._parts)))
        else:
            parts, self._parts = [head, *self._parts], ()
            await _write_slowly(request, transport, parts, len(head) + size)
        await request.writer.drain()


def _open(request: web.BaseRequest) -> asyncio.Transport:
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError(_CLOSED)
    return transport


async def _write_slowly(
    request: web.BaseRequest, transport: asyncio.Transport, parts: list[Part], size: int
) -> None:
    """Write as fast as the client reads, and report how much is held meanwhile.

    Empties `parts`: when the client goes away, aiohttp's error and its traceback keep all frames
    alive until the garbage collector runs.
    """
    connection = request.protocol
    piece: Part = b""
    try:
        with _holding(request, size):
            for piece in pieces(parts):
                transport.write(piece)
                if connection.writing_paused:
                    await request.writer.drain()
                else:
                    await asyncio.sleep(0)  # others have their turn
                if transport.is_closing():
                    raise ConnectionResetError(_CLOSED)
    finally:
        piece = b""
        parts.clear()


async def write_event(
    request: web.BaseRequest, response: web.StreamResponse, parts: Sequence[Part]
) -> None:
    """Write one message in parts as a server-sent event; a large one piece by piece, too."""
    size = sum(map(len, parts))
    if size <= PIECE_BYTES:
        await response.write(frame(b"".join(parts)))
        return
    with _holding(request, size):
        for piece in frame_pieces(Parted(tuple(parts), size)):
            await response.write(piece)


@contextmanager
def _holding(request: web.BaseRequest, size: int) -> Generator[None]:
    """Report to the connection that `size` bytes are held until all of them are written."""
    tell_held(request, size)
    try:
        yield
    finally:
        tell_held(request, 0)


@contextmanager
def held_for(request: web.BaseRequest, stream: EventStream) -> Generator[None]:
    """Report to the connection how many bytes wait in a stream."""
    stream.on_held = tell = partial(tell_held, request)
    tell(stream.held_bytes)
    try:
        yield
    finally:
        tell(0)
        if stream.on_held is tell:  # else somebody else reads it by now
            stream.on_held = None


def tell_held(request: web.BaseRequest, size: int) -> None:
    """Report to a request's connection, if it counts that, how many bytes wait to be read on it."""
    if (holds := getattr(request.protocol, "holds", None)) is not None:
        holds(size)
