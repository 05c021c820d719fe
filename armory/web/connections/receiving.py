"""Incoming data of a connection: passed to aiohttp's parser, counted, and paused.

Owns: `Receiver`: headers, bodies and pipelined requests are counted while they arrive; data with
very many lines is parsed in several turns, and a body in very many chunks is joined. Never reads
the content, never looks at other connections.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from aiohttp.http import RawRequestMessage
from aiohttp.web_server import Server

from armory.web.connections.arriving import COUNTED_BYTES
from armory.web.connections.exchanges import Exchanges, forget_trace
from armory.web.connections.owner import Owner
from armory.web.connections.pacing import LARGE_PIECE, LINES_BYTES, has_many_lines

_HEAD = b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
TIMED_OUT = _HEAD % b"408 Request Timeout"
TOO_LARGE = _HEAD % b"431 Request Header Fields Too Large"
ENDING = _HEAD % b"503 Service Unavailable\r\nRetry-After: 1"
AHEAD_BYTES = 512 * 1024
"""What is read of further requests while one is answered; the rest waits in the network."""
_SMALL_PARTS, _NO_PARTS = 32, deque[bytes]()
"""If more parts of a body wait to be read, they are joined."""


class Receiver(Exchanges):
    """The receiving side of a client connection.

    Attributes:
        caller: whose its last request was, as its handler says; empty: no request yet.
        begun: when the first byte of an incomplete header came; None: there is no such header.
        head: bytes of the header of its request, or of an incomplete one.
        ahead: bytes of further requests that came while one is answered.
        rest: what came and is to be parsed in the next turns.
        paced: whether it reads nothing until its turn comes.
        parsed: what a body was read from that is understood and need not be held.
    """

    __slots__ = ("_owner", "ahead", "begun", "caller", "head", "paced", "parsed", "rest")

    def __init__(self, owner: Owner[Any], server: Server, **settings: Any) -> None:
        super().__init__(server, loop=owner.loop, **settings)
        self._owner = owner
        self.caller = ""
        self.begun: float | None = None
        self.head = 0
        self.ahead = 0
        self.rest = b""
        self.paced = False
        self.parsed: object = None
        self.account = None

    @property
    def waiting(self) -> bool:
        """Whether it waits for a request."""
        waiter = self._waiter
        return self._current_request is None and waiter is not None and not waiter.done()

    @property
    def used(self) -> bool:
        """Whether it has carried a request before."""
        return self._request_count > 0

    @property
    def arriving(self) -> int:
        """Bytes of its requests that have arrived and are not processed yet."""
        if self._current_request is not None:
            content: Any = self._current_request.content
        elif self._messages:
            content = self._messages[-1][1]
        else:
            return self.ahead + (0 if self.begun is None else self.head)
        body = 0 if content is self.parsed else content.total_bytes
        return self.ahead + self.head + body

    @property
    def unheard(self) -> bool:
        """Whether so much was pipelined that reading is paused and even a disconnect goes
        unnoticed.
        """
        return self._buffer_paused and self._current_request is not None

    def data_received(self, data: bytes) -> None:
        """As `asyncio.Protocol.data_received`; data with very many lines is parsed in several
        turns.
        """
        if self.rest and data:
            self.rest += data
        elif len(data) > LINES_BYTES and has_many_lines(data):
            self.rest = data
            self._pause_transport_reading()
            self._parse_on()
        else:
            self._take(data)

    def _parse_on(self) -> None:
        """Parse more of the buffered data, and read again once all of it is parsed."""
        if self.transport is None:
            self.rest = b""
            return
        piece, self.rest = self.rest[:LINES_BYTES], self.rest[LINES_BYTES:]
        self._take(piece)
        if self.rest:
            self._loop.call_soon(self._parse_on)
        elif not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def _take(self, data: bytes) -> None:
        request = self._current_request
        if request is not None:
            self._take_beside(request.content, data)
            return
        if self._close and data:
            self.cut(ENDING)
            return
        super().data_received(data)
        if not self._messages:
            if data:
                self._heads(len(data))
            return
        content = self._looked_at(data)
        if self.begun is None:  # all of the header came at once
            head = len(data) - content.total_bytes
            self.head = head if head > 0 else 0  # a packed body is larger than what came
        self.begun = None
        self.ahead = 0
        if len(data) > COUNTED_BYTES:
            self._arrives(content, len(data))

    def _take_beside(self, content: Any, data: bytes) -> None:
        """Process bytes that arrive while a request, whose body this is, is being answered."""
        whole = content.is_eof()
        super().data_received(data)
        self._looked_at(data)
        self.begun = None
        if whole:
            self._read_ahead(len(data))
        self._arrives(content, 0)

    def _looked_at(self, data: bytes) -> Any:
        """The latest body, its chunks joined if there are many; a malformed request is not kept
        alive by its traceback.
        """
        if self._messages and not isinstance(last := self._messages[-1][0], RawRequestMessage):
            forget_trace(last.exc)
        content = self._latest_body()
        if not data:  # what was held back, in a read that goes through as many parts as there were
            self._loop.call_soon(self._put_together)
        elif len(getattr(content, "_buffer", _NO_PARTS)) > _SMALL_PARTS:
            self._put_together()
        return content

    def _latest_body(self) -> Any:
        """The body of the request that came last; None without one."""
        if self._messages:
            return self._messages[-1][1]
        return None if self._current_request is None else self._current_request.content

    def _heads(self, size: int) -> None:
        """Count `size` bytes of an incomplete header."""
        if self.begun is None:
            self.begun, self.head = self._loop.time(), 0
        if self.waiting or not self.used:  # else it may be the rest of a body
            self.head += size
            self._owner.heads(self)

    def _arrives(self, content: Any, size: int) -> None:
        """Count more bytes of a body."""
        if max(size, content.total_bytes) > LARGE_PIECE and not content.is_eof():
            self._owner.pace.took(self)
        self._owner.arrives(self)

    def _put_together(self) -> None:
        """Join the many small chunks of a body that waits to be read; each chunk costs its reader a
        microsecond.
        """
        parts: deque[bytes] = getattr(self._latest_body(), "_buffer", _NO_PARTS)
        if len(parts) > _SMALL_PARTS:
            together = b"".join(parts)
            parts.clear()
            parts.append(together)

    def _read_ahead(self, size: int) -> None:
        """Count `size` bytes of pipelined requests."""
        self.ahead += size
        if self.ahead > AHEAD_BYTES and not self._buffer_paused:
            self._pause_reading_for_buffer()

    def _resume_reading_if_drained(self) -> None:
        if self.ahead > AHEAD_BYTES and self._messages:
            return
        if self.ahead:
            self.ahead = 0
            self._owner.understood(self)
        super()._resume_reading_if_drained()

    def understood(self) -> None:
        """The body of its request need not be kept while the request is served."""
        if self._current_request is not None:
            self.parsed = self._current_request.content
        self._owner.understood(self)

    @property
    def beside_others(self) -> bool:
        """Whether other callers were active lately; True where that is not known."""
        return self.account is None or self.account.beside_others

    def hold(self) -> None:
        """Pause reading until `go_on`, even where there is room."""
        self.paced = True
        self._pause_transport_reading()

    def go_on(self) -> None:
        """Resume reading, as far as there is room."""
        self.paced = False
        if not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """As aiohttp's, without a needless run of its parser after each body."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _resume_transport_reading(self) -> None:
        if not self.paced and not self.rest:
            super()._resume_transport_reading()

    def cut(self, last: bytes = b"") -> None:
        """Close at once; `last` is written first if nothing else is waiting to be sent."""
        transport = self.transport
        if transport is None:
            return
        if last and not transport.get_write_buffer_size():
            transport.write(last)
            self.force_close()
        else:
            transport.abort()
