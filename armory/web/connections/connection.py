"""One client connection.

Owns: `Connection`: aiohttp's, observed, and told when to read. Never reads the content, never looks
at other connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_server import Server

from armory.logger import Logger
from armory.web.connections.arriving import COUNTED_BYTES
from armory.web.connections.exchanges import Exchanges, forget_trace
from armory.web.connections.owner import Owner
from armory.web.connections.pacing import LARGE_PIECE, LINES_BYTES, has_many_lines

_log = Logger(__name__)
_ENDED_WITHIN_S = 1.0
"""How long a request that is cut off may take to clean up, and to be answered that it is."""
_AT_ONCE_S = 0.01
"""As soon as possible: 0 means no limit to aiohttp."""
_HEAD = b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
TIMED_OUT = _HEAD % b"408 Request Timeout"
TOO_LARGE = _HEAD % b"431 Request Header Fields Too Large"
ENDING = _HEAD % b"503 Service Unavailable\r\nRetry-After: 1"
AHEAD_BYTES = 512 * 1024
"""What is read of further requests while one is answered; the rest waits in the network."""
_SMALL_PARTS, _NO_PARTS = 32, deque[bytes]()
"""More parts of a body that wait to be read are put together."""


class Connection(Exchanges):
    """One client connection.

    Attributes:
        since: when it was made, or when its last request was seen to be answered.
        begun: when the first byte of an incomplete header came; None: there is no such header.
        head: bytes of the header of its request, or of an incomplete one.
        ahead: bytes of further requests that came while one is answered.
        stalled: since when its client does not read; None: it reads.
        unread: bytes of answers that wait: a large one that is being written, which is held whole
            until its end, or those of a stream that is read too slowly.
        mark: bytes that waited in the transport when the client was last seen to read.
        reserve: whether it is one beyond the cap.
        rest: what came and is to be parsed in the next turns.
        paced: whether it reads nothing until its turn comes.
        caller: whose its last request was, as its handler says; empty: no request yet.
        parsed: what a body was read from that is understood and need not be held.
        left: called when the client goes away while its request is served to the end all the same;
            None: the request is cancelled.
        overdue: whether its request took longer than it may when the server ends: it is cancelled,
            and a moment is left in which it can still be answered.
    """

    __slots__ = (
        "_all", "ahead", "begun", "caller", "head", "held", "left", "mark", "overdue", "paced",
        "parsed", "reserve", "rest", "seen", "since", "stalled", "unread",
    )  # fmt: skip

    def __init__(self, owner: Owner[Connection], server: Server, **settings: Any) -> None:
        super().__init__(server, loop=owner.loop, **settings)
        self._all = owner
        self.since = owner.loop.time()
        self.begun: float | None = None
        self.head = 0
        self.ahead = 0
        self.stalled: float | None = None
        self.unread = 0
        self.parsed: object = None
        self.held = 0
        self.mark = 0
        self.reserve = False
        self.rest = b""
        self.paced = False
        self.account = None
        self.caller = ""
        self.seen: Any = None
        self.left: Callable[[], None] | None = None
        self.overdue = False

    @property
    def waiting(self) -> bool:
        """Whether it waits for a request."""
        waiter = self._waiter
        return self._current_request is None and waiter is not None and not waiter.done()

    @property
    def unsent(self) -> int:
        """Bytes that wait in the transport's write buffer."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    @property
    def used(self) -> bool:
        """Whether it has carried a request before."""
        return self._request_count > 0

    @property
    def idle_until(self) -> float:
        """When it is closed unless a request comes; 0: it has had none yet."""
        return self._next_keepalive_close_time

    @property
    def held_up_since(self) -> float | None:
        """Since when the client has sent no more of its request, or not read; None: it is not
        waited for.
        """
        if self.stalled is not None:
            return self.stalled
        request = self._current_request
        if request is None or request is not self.seen or request.content.is_eof():
            return None
        return self.since

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

    @property
    def request(self) -> Any:
        """The request that is being answered; None: there is none."""
        return self._current_request

    def close(self) -> None:
        """As aiohttp's at shutdown, but an idle connection is left to `shutdown`."""
        if not self.waiting:
            super().close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As `asyncio.Protocol.connection_made`."""
        super().connection_made(transport)
        self._all.made(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """As `asyncio.Protocol.connection_lost`."""
        self._all.lost(self)
        self.seen = self.parsed = None  # which hold this one
        self._all.endings.add(partial(self._lost, exc))

    def _lost(self, exc: BaseException | None) -> None:
        left, self.left = self.left, None
        if left is not None:
            self._task_handler = None  # which aiohttp would cancel
            left()
        super().connection_lost(exc)

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
            self._all.heads(self)

    def _arrives(self, content: Any, size: int) -> None:
        """Count more bytes of a body."""
        if max(size, content.total_bytes) > LARGE_PIECE and not content.is_eof():
            self._all.pace.took(self)
        self._all.arrives(self)

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
            self._all.understood(self)
        super()._resume_reading_if_drained()

    def understood(self) -> None:
        """The body of its request need not be kept while the request is served."""
        if self._current_request is not None:
            self.parsed = self._current_request.content
        self._all.understood(self)

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

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """As aiohttp's, but without a traceback for a client that sent no HTTP or went away."""
        error = kw.get("exc_info")
        gone = self.transport is None and isinstance(error, ConnectionError)
        if gone or isinstance(error, HttpProcessingError):
            _log.debug("request_malformed", error=type(error).__name__)
        else:
            super().log_exception(*args, **kw)

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Close the connection; its request may still be answered within `timeout` seconds in all.

        aiohttp's own waits twice that long, so that one hanging call would exceed the grace period
        of a kubelet.
        """
        if self.waiting:
            await asyncio.sleep(min(self._all.late_s, timeout or 0.0))
            if self.waiting:
                super().close()  # none came: the client need not hang up first
        task = self._task_handler
        if task is not None and not task.done() and not self.waiting:
            self._force_close = True  # no further request
            if not (await asyncio.wait((task,), timeout=timeout))[0]:
                self._all.note("requests_cut", path=getattr(self.request, "path", None))
                self.overdue = True
                task.cancel()
                await asyncio.wait((task,), timeout=_ENDED_WITHIN_S)
        await super().shutdown(_AT_ONCE_S)

    def holds(self, size: int) -> None:
        """Set how many bytes of answers wait for the client, besides those in the transport."""
        self.unread = size
        if self.stalled is not None:
            self._all.holds(self)

    def pause_writing(self) -> None:
        """As asyncio's: the client reads more slowly than is written (backpressure)."""
        super().pause_writing()
        self._all.stalls(self)

    def resume_writing(self) -> None:
        """As `asyncio.Protocol.resume_writing`."""
        self._all.reads(self)
        super().resume_writing()

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
