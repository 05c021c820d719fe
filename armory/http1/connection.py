"""One HTTP/1.1 connection, and the exchange on it.

Owns: writing a request, feeding the parser (httptools' llhttp), telling when the connection is free
again. `response` is what arrives, `pool` keeps the connections. Never imports the protocol.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import cast

import httptools

from armory.http1.deadlines import Deadlines
from armory.http1.large import PIECE_BYTES, large_reads
from armory.http1.response import BadAnswer, ClosedEarly, Response
from armory.http1.room import grown
from armory.http1.sending import SENT_AT_ONCE, Body, pieces

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_MAX_HEADERS = 256 * 1024
_READ_BYTES = 256 * 1024
_AT_ONCE = 512 * 1024
"""How much of a body is read at a time while no other arrives. With half of it a large result takes
a fifth longer."""


class _Scratch(threading.local):
    """What the connections of a thread's loop read into; used up before the next one reads."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_READ_BYTES))


_scratch = _Scratch()


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
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once. Who still waits for an answer hears that there is none."""
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
            self._silent += nbytes
            try:
                self._parser.feed_data(self._buffer[:nbytes])
                if self._silent > _MAX_HEADERS:
                    raise BadAnswer(f"headers of more than {_MAX_HEADERS} bytes")
            except httptools.HttpParserUpgrade:
                self._break(BadAnswer("not a usable HTTP answer: another protocol"))
            except (httptools.HttpParserError, BadAnswer) as error:
                own = isinstance(error, httptools.HttpParserCallbackError) and error.__context__
                self._break(BadAnswer(f"not a usable HTTP answer: {own or error}"))
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
        response, self._response = self._response, None
        self._transport = self._body = self._room = None
        self._unsent = []
        del self._parser  # which holds this one
        if response is None:
            return
        if exc is None and response.status and self._endless:
            response.finish()
        else:
            said = "in the middle of its answer" if response.status else "without an answer"
            response.fail(ClosedEarly(f"it closed the connection {said}"))
            response.close()

    # --- httptools

    def on_message_begin(self) -> None:
        """An answer begins. One that nobody asked for is refused, since it would be taken for the
        answer to the next request.
        """
        if self._response is None:
            raise BadAnswer("nobody asked for it")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field."""
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Status and headers are there."""
        fields, self._fields = self._fields, []
        self._silent = 0
        status = self._parser.get_status_code()
        if status < 200 or self._response is None:
            if status < 100:
                raise BadAnswer(f"status {status}")
            return
        self._response.begin(status, fields)
        self._endless = self._response.endless

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._silent = 0
        response = self._response
        if response is not None and response.feed(body) and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The whole answer is there."""
        if self._fields:
            self._fields = []  # trailers, which are no headers of the next answer
        if self._response is not None and self._response.status:
            self._completed(keep=self._parser.should_keep_alive())

    def _completed(self, *, keep: bool) -> None:
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
        response = self._response
        if response is not None:
            response.fail(error)
            response.close()
        self.abort()
