"""One HTTP/1.1 connection, and the exchange on it.

Owns: writing a request, parsing the response in steps, and reporting when the connection is free
again. `parsing` has the parser, `response` the response, `pool` keeps the connections. Never
imports the protocol.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

from armory.http1.deadlines import Deadlines
from armory.http1.large import PIECE_BYTES, large_reads
from armory.http1.parsing import AnswerParser
from armory.http1.response import ClosedEarly, Response
from armory.http1.room import grown
from armory.http1.scratch import Scratch
from armory.http1.sending import SENT_AT_ONCE, Body, pieces
from armory.steps import FLOODING

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_STEP_BYTES = 4 * 1024
"""How much is parsed at a time of what has many lines: each may be a chunk, or a header, which
costs as much as a KiB of others'."""
_PACKED_BYTES = 1024
"""How much at a time of a compressed body, which may become a thousand times as much."""
_TURN_PARTS = 500
"""Chunks and headers after which the rest waits for another round of the event loop."""
_TURN_S = 0.001
"""How long a compressed body is unpacked in one round: it may have many parts, all of them
empty."""
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
        response: what is being answered; None: nobody asked anything.
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
        self._answers: AnswerParser
        self.response: Response | None = None
        self._kept = _NOTHING  # read, and to be parsed in further rounds of the loop
        self._lost: tuple[Exception | None] | None = None  # the end, which comes after that
        self._paused = False
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
        """Whether a request can be sent on it."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self.response is None

    def send(self, head: bytes, body: Body | None, timeout_s: float | None) -> Response:
        """Begin an exchange; the response fills as the answer arrives."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ClosedEarly("the connection is closed")
        response = self.response = Response(self, self._deadlines, timeout_s)
        self._answers.begin()
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
        """Write the next piece of a large body, and the one after it in another iteration of the
        loop: in one step the kernel would copy megabytes, which takes milliseconds.
        """
        transport, unsent = self._transport, self._unsent
        if not unsent or transport is None or transport.is_closing() or self._full:
            return
        transport.write(unsent.pop())
        if unsent:
            self.loop.call_soon(self._send_on)

    def pause_writing(self) -> None:
        """The peer reads slower than the body is written."""
        self._full = True

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._full = False
        self._send_on()

    def resume(self) -> None:
        """Read from the socket again, where reading was paused."""
        if self._paused and self._transport is not None:
            self._paused = False
            if not self._kept:
                self._transport.resume_reading()

    def read_into(self, body: bytearray, missing: int) -> None:
        """Read the remaining bytes of the body directly into it, without the parser."""
        self._body, self._missing = grown(body, len(body) + missing), missing
        self._large.begin(self)
        self.resume()

    def hold(self) -> None:
        """Pause reading: it is another connection's turn."""
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Resume reading: it is this connection's turn."""
        if self._transport is not None and not self._transport.is_closing() and not self._kept:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once. A pending exchange fails."""
        self._kept = _NOTHING
        if self._transport is not None:
            self._transport.abort()
        response, self.response = self.response, None
        if response is not None:
            response.fail(ClosedEarly("the connection was closed before the answer was complete"))

    # --- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's derive from no class
        self._answers = AnswerParser(self)
        if transport.get_extra_info("sslcontext") is not None:
            # While reading is paused the end must not be seen: uvloop drops what it holds then.
            self._transport.set_read_buffer_limits(1, 0)  # pyright: ignore[reportAttributeAccessIssue]

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes. The last byte of a body goes through the common buffer,
        which has room for unexpected bytes after it.
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
        """Process received bytes."""
        body = self._body
        if self.response is None:
            # Nobody asked: whatever this is, the connection cannot be trusted any more.
            self.abort()
        elif body is None:
            packed = self.response.packed
            if packed:
                self.response.read_more()
            if nbytes <= _STEP_BYTES and not packed:
                self._answers.parse(self._buffer[:nbytes])
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
            self.completed(keep=self._answers.restart() and nbytes == 1)

    def eof_received(self) -> bool:
        """The peer has closed its side; close as well."""
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
        """Finish the exchange: the connection is closed, and everything received is parsed."""
        response, self.response = self.response, None
        self._answers.end()
        if response is None:
            return
        if exc is None and response.status and response.endless:
            response.finish()
        else:
            when = "in the middle of its answer" if response.status else "without an answer"
            response.fail(ClosedEarly(f"it closed the connection {when}"))
            response.close()

    # --- parsing

    def _parse_in_steps(self, data: memoryview, *, lined: bool = True) -> None:
        """Parse as much as may be done in one iteration of the loop, and the rest in further ones,
        before anything else is read.
        """
        began = time.perf_counter()
        self._answers.parts = 0
        while data:
            response = self.response
            if response is None:  # it is over, and what follows was not asked for
                self.abort()
                return
            # A body of known length may be read straight into place next, so that none is left.
            known = response.status and not lined and not response.packed
            step = _PACKED_BYTES if response.packed else _STEP_BYTES
            size = len(data) if response.plain or known else step
            self._answers.parse(data[:size])
            data = data[size:]
            late = response.packed and time.perf_counter() - began > _TURN_S
            if (late or self._answers.parts > _TURN_PARTS) and data and self._goes_on_in_parts():
                # Others read into the buffer meanwhile.
                self._kept = data if data.readonly else memoryview(bytes(data))
                if self._transport is not None and not self._transport.is_closing():
                    self._transport.pause_reading()
                wait_s = FLOODING.wait_s(time.perf_counter() - began)
                self.loop.call_later(wait_s, self._parse_on)
                return

    def _goes_on_in_parts(self) -> bool:
        """Whether the rest may wait: for a plain body, the reader is told how much has arrived."""
        return self.response is not None and not self.response.plain

    def _parse_on(self) -> None:
        data, self._kept = self._kept, _NOTHING
        self._parse_in_steps(data)
        if self._kept:
            return
        if self._lost is not None:
            self._end(*self._lost)
        elif not self._paused:
            self.go_on()

    def full(self) -> None:
        """The reader of the response has enough for now; pause reading."""
        if self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def completed(self, *, keep: bool) -> None:
        """The response is complete: the next request can be sent, if the connection may be kept."""
        response, self.response = self.response, None
        assert response is not None
        response.finish()
        if self._paused:
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

    def broken(self, error: Exception) -> None:
        """The response is malformed: the exchange fails, and the connection is closed."""
        response = self.response
        if response is not None:
            response.fail(error)
            response.close()
        self.abort()
