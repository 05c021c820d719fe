"""One HTTP/1.1 connection, and the exchange on it.

Owns: writing a request, feeding the parser (httptools' llhttp) in steps, telling when the
connection is free again. `response` is what arrives, `pool` keeps the connections. Never imports
the protocol.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import httptools

from armory.http1.deadlines import Deadlines
from armory.http1.large import PIECE_BYTES, large_reads
from armory.http1.response import BadAnswer, ClosedEarly, Response
from armory.http1.room import grown
from armory.http1.scratch import Scratch
from armory.http1.sending import SENT_AT_ONCE, Body, pieces
from armory.steps import FLOODING

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_MAX_HEADERS = 256 * 1024
_MAX_INFORMATIONAL = 64
"""Answers with a status below 200 that may come before the one that counts."""
_STEP_BYTES = 4 * 1024
"""How much is parsed at a time of what has many lines: each may be a chunk, or a header, which
costs as much as a KiB of others'."""
_PACKED_BYTES = 1024
"""How much at a time of a compressed body, which may become a thousand times as much."""
_TURN_PARTS = 500
"""After so many chunks and headers the rest waits for another round of the event loop."""
_PART_BYTES = 2048
"""So many unpacked bytes take as long as one."""
_TURN_S = 0.001
"""So long a compressed body is unpacked in a round: its parts may be of no size, and many."""
_AT_ONCE = 512 * 1024
"""How much of a body is read at a time while no other arrives. With half of it a large result takes
a fifth longer."""


_NOTHING = memoryview(b"")
_scratch = Scratch()


class Connection(asyncio.BufferedProtocol):
    """One socket, one exchange at a time.

    Args:
        origin: where it leads to.
        deadlines: of the exchanges under way.
        on_free: told when another request can go out on it.
        on_closed: told once, when the socket is closed.

    Attributes:
        loop: the event loop.
    """

    def __init__(
        self,
        origin: Origin,
        deadlines: Deadlines,
        *,
        on_free: Callable[[Connection], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        self.origin = origin
        self.loop = asyncio.get_running_loop()
        self._deadlines = deadlines
        self._on_free = on_free
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser
        self._response: Response | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []  # of the body, in what is parsed just now
        self._parts = 0
        self._informational = 0
        self._kept = _NOTHING  # read, and to be parsed in further rounds of the loop
        self._lost: tuple[Exception | None] | None = None  # the end, which comes after that
        self._silent = 0
        self._paused = False
        self._endless = False
        self._unsent: list[memoryview] = []  # of a large body, the last piece first
        self._full = False
        self._body: memoryview | None = None  # a large one that is read straight into place
        self._missing = 0
        self._room: memoryview | None = None  # of the body, for what comes next
        self._buffer = _scratch.view
        self._large = large_reads()
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether a request can go out on it."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._response is None

    def send(self, head: bytes, body: Body | None, timeout_s: float | None) -> Response:
        """Begin an exchange; the response fills as the answer arrives."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ClosedEarly("the connection is closed")
        response = self._response = Response(self, self._deadlines, timeout_s)
        self._endless = False
        self._informational = 0
        if isinstance(body, bytes) and len(body) <= SENT_AT_ONCE:
            transport.write(head + body)
        elif body is None:
            transport.write(head)
        else:
            transport.write(head)
            self._unsent = pieces(body)
            self._send_on()
        return response

    def _send_on(self) -> None:
        """Write the next piece of a large body, and the one after it in another round of the loop:
        in one go the kernel would copy megabytes of it, for milliseconds.
        """
        transport, unsent = self._transport, self._unsent
        if not unsent or transport is None or transport.is_closing() or self._full:
            return
        transport.write(unsent.pop())
        if unsent:
            self.loop.call_soon(self._send_on)

    def pause_writing(self) -> None:
        """The other side reads slower than a body is written."""
        self._full = True

    def resume_writing(self) -> None:
        """It has read."""
        self._full = False
        self._send_on()

    def resume(self) -> None:
        """Read from the socket again, where reading was paused."""
        if self._paused and self._transport is not None:
            self._paused = False
            if not self._kept:
                self._transport.resume_reading()

    def read_into(self, body: bytearray, missing: int) -> None:
        """Add the rest of the body, so many bytes, to it; past the parser."""
        self._body, self._missing = grown(body, len(body) + missing), missing
        self._large.begin(self)
        self.resume()

    def hold(self) -> None:
        """Read nothing for now: it is another's turn."""
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read from the socket again: its turn has come."""
        if self._transport is not None and not self._transport.is_closing() and not self._kept:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once. Who still waits for an answer hears that there is none."""
        self._kept = _NOTHING
        if self._transport is not None:
            self._transport.abort()
        response, self._response = self._response, None
        if response is not None:
            response.fail(ClosedEarly("the connection was closed before the answer was complete"))

    # --- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's derive from no class
        self._parser = httptools.HttpResponseParser(self)  # now: no call says that none was made
        if transport.get_extra_info("sslcontext") is not None:
            # While reading is paused the end must not be seen: uvloop drops what it holds then.
            self._transport.set_read_buffer_limits(1, 0)  # pyright: ignore[reportAttributeAccessIssue]

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go. The last one of a body goes through the common buffer, which has
        room for what must not follow it.
        """
        body = self._body
        if body is None or self._missing == 1:
            return self._buffer
        if self._room is None:
            begin = len(body) - self._missing
            most = PIECE_BYTES if self._large.shared else _AT_ONCE
            self._room = body[begin : begin + min(most, self._missing - 1)]
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes from the other side."""
        body = self._body
        if self._response is None:
            # Nobody asked: whatever this is, the connection cannot be trusted any more.
            self.abort()
        elif body is None:
            packed = self._response.packed
            if packed:
                self._response.read_more()
            if nbytes <= _STEP_BYTES and not packed:
                self._parse(self._buffer[:nbytes])
            else:
                self._parse_in_steps(self._buffer[:nbytes], lined=_scratch.many_lines(nbytes))
        elif self._room is not None:
            self._missing -= nbytes
            self._room = self._room[nbytes:] if nbytes < len(self._room) else None
            self._large.took(self, nbytes)
        else:
            body[-1] = self._buffer[0]
            self._body = None
            self._large.end(self)
            keep = nbytes == 1 and self._parser.should_keep_alive()
            self._parser = httptools.HttpResponseParser(self)  # the old one still waits for a body
            self._completed(keep=keep)

    def eof_received(self) -> bool:
        """The other side is done; close as well."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._on_closed(self)
        self._large.end(self)
        self._transport = self._body = self._room = None
        self._unsent = []
        if self._kept:
            self._lost = (exc,)  # what came before the end is part of the answer
        else:
            self._end(exc)

    def _end(self, exc: Exception | None) -> None:
        """Nothing more comes, and all that came is parsed."""
        response, self._response = self._response, None
        del self._parser  # which holds this one
        if response is None:
            return
        if exc is None and response.status and self._endless:
            response.finish()
        else:
            said = "in the middle of its answer" if response.status else "without an answer"
            response.fail(ClosedEarly(f"it closed the connection {said}"))
            response.close()

    # --- parsing

    def _parse(self, data: memoryview) -> None:
        self._silent += len(data)
        try:
            self._parser.feed_data(data)
            if self._chunks:
                self._hand_on()
            if self._silent > _MAX_HEADERS:
                raise BadAnswer(f"headers of more than {_MAX_HEADERS} bytes")
        except httptools.HttpParserUpgrade:
            self._break(BadAnswer("not a usable HTTP answer: another protocol"))
        except (httptools.HttpParserError, ConnectionError) as error:
            own = isinstance(error, httptools.HttpParserCallbackError) and error.__context__
            self._break(BadAnswer(f"not a usable HTTP answer: {own or error}"))

    def _parse_in_steps(self, data: memoryview, *, lined: bool = True) -> None:
        """Parse as much as the loop may be held for; the rest in further rounds of it, before
        anything else is read.
        """
        began = time.perf_counter()
        self._parts = 0
        while data:
            response = self._response
            if response is None:  # it is over, and what follows was not asked for
                self.abort()
                return
            # A body of known length may be read straight into place next, so that none is left.
            known = response.status and not lined and not response.packed
            step = _PACKED_BYTES if response.packed else _STEP_BYTES
            size = len(data) if response.plain or known else step
            self._parse(data[:size])
            data = data[size:]
            late = response.packed and time.perf_counter() - began > _TURN_S
            if (late or self._parts > _TURN_PARTS) and data and self._goes_on_in_parts():
                # Others read into the buffer meanwhile.
                self._kept = data if data.readonly else memoryview(bytes(data))
                if self._transport is not None and not self._transport.is_closing():
                    self._transport.pause_reading()
                wait_s = FLOODING.wait_s(time.perf_counter() - began)
                self.loop.call_later(wait_s, self._parse_on)
                return

    def _goes_on_in_parts(self) -> bool:
        """Whether what follows may wait: of a plain body, who reads counts what the socket has."""
        return self._response is not None and not self._response.plain

    def _parse_on(self) -> None:
        data, self._kept = self._kept, _NOTHING
        self._parse_in_steps(data)
        if self._kept:
            return
        if self._lost is not None:
            self._end(*self._lost)
        elif not self._paused:
            self.go_on()

    def _hand_on(self) -> None:
        """Give the response what has come of its body, chunks of a byte each as one piece."""
        chunks = self._chunks
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        response = self._response
        if response is None:
            return
        if response.packed:
            before = response.unread
            full = response.feed(body)
            self._parts += (response.unread - before) // _PART_BYTES
        else:
            full = response.feed(body)
        if full and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    # --- httptools

    def on_message_begin(self) -> None:
        """An answer begins. One that nobody asked for is refused, since it would be taken for the
        answer to the next request.
        """
        if self._response is None:
            raise BadAnswer("nobody asked for it")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field."""
        self._parts += 1
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Status and headers are there."""
        fields, self._fields = self._fields, []
        self._silent = 0
        status = self._parser.get_status_code()
        if status < 200 or self._response is None:
            if status < 100:
                raise BadAnswer(f"status {status}")
            self._informational += 1
            if self._informational > _MAX_INFORMATIONAL:
                raise BadAnswer(f"more than {_MAX_INFORMATIONAL} answers before the final one")
            return
        self._response.begin(status, fields)
        self._endless = self._response.endless

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._silent = 0
        self._parts += 1
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        """The whole answer is there."""
        if self._fields:
            self._fields = []  # trailers, which are no headers of the next answer
        if self._response is not None and self._response.status:
            self._completed(keep=self._parser.should_keep_alive())

    def _completed(self, *, keep: bool) -> None:
        if self._chunks:
            self._hand_on()
        response, self._response = self._response, None
        assert response is not None
        response.finish()
        self.resume()
        transport = self._transport
        if transport is None:
            return
        if self._unsent or transport.get_write_buffer_size():
            transport.abort()  # answered before all was sent, which nobody may ever read
        elif keep:
            self._on_free(self)
        else:
            transport.close()

    def _break(self, error: Exception) -> None:
        with suppress(ConnectionError):
            if self._chunks:
                self._hand_on()
        response = self._response
        if response is not None:
            response.fail(error)
            response.close()
        self.abort()
