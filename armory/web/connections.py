"""Connections of clients: how many there may be, and how long each may take over what it does.

Owns: `Connection`, aiohttp's with what is observed of it, and `Connections`, which cuts those that
are silent, half-way or do not read. Never looks at what is said. A connection that waits for a
request is what makes room for a new one; with every one busy, only health is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_server import Server

from armory.logger import Logger
from armory.web.arriving import Bodies, of_whom_most_is_held
from armory.web.descriptors import used_up
from armory.web.endings import Endings
from armory.web.exchanges import Exchanges
from armory.web.pacing import LARGE_PIECE, Pace
from armory.web.settings import RESERVED, ListenSettings

_log = Logger(__name__)
_TICK_S = 1.0
LATE_S = 0.1
LATE_AMONG_REPLICAS_S = 1.0
"""So long a connection that waits goes on to wait when the end has begun: a request may be on its
way, and a busy machine takes its time. Longer where others send requests elsewhere meanwhile."""
_ENDED_WITHIN_S = 1.0
"""So long a request that is cut off may take to clean up."""
_AT_ONCE_S = 0.01
"""To aiohttp 0 means without end."""
_LOG_EVERY_S = 60.0
_EVICTED_AT_ONCE = 16
_PROGRESS_BYTES = 64 * 1024
_NO_ACCEPT = "socket.accept() out of system resource"
_HEAD = b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
TIMED_OUT = _HEAD % b"408 Request Timeout"
ENDING = _HEAD % b"503 Service Unavailable\r\nRetry-After: 1"
_LAST_WORDS = {"header": TIMED_OUT, "body": TIMED_OUT, "arriving": ENDING}


class Connection(Exchanges):
    """One connection of a client.

    Attributes:
        since: when it was made, or when the request before the next one had been answered, as far
            as that was noticed.
        begun: when the first byte of a header came whose end is missing; None: no such header.
        stalled: since when its client does not read; None: it does.
        unread: bytes of a large answer that is being written; it is held whole until its end.
        mark: bytes that waited in the transport when it was last seen to read.
        reserve: whether it is one beyond the cap.
        paced: whether it reads nothing until its turn comes.
        caller: who asked last on it, as whoever serves it says; empty: nobody has.
        arrived: bytes of a large request body that is not understood yet.
    """

    __slots__ = (
        "_all", "arrived", "begun", "caller", "held", "mark", "paced", "reserve", "seen", "since",
        "stalled", "unread",
    )  # fmt: skip

    def __init__(self, owner: Connections, server: Server, **settings: Any) -> None:
        super().__init__(server, loop=owner.loop, **settings)
        self._all = owner
        self.since = owner.loop.time()
        self.begun: float | None = None
        self.stalled: float | None = None
        self.unread = 0
        self.arrived = 0
        self.held = 0
        self.mark = 0
        self.reserve = False
        self.paced = False
        self.caller = ""
        self.seen: Any = None

    @property
    def waiting(self) -> bool:
        """Whether it waits for a request."""
        waiter = self._waiter
        return self._current_request is None and waiter is not None and not waiter.done()

    @property
    def unsent(self) -> int:
        """Bytes that wait in the transport."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    @property
    def used(self) -> bool:
        """Whether it brought a request already."""
        return self._request_count > 0

    @property
    def request(self) -> Any:
        """The request that is being answered; None without one."""
        return self._current_request

    def close(self) -> None:
        """As aiohttp's, at the end; one that waits for a request is left to `shutdown`."""
        if not self.waiting:
            super().close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio's."""
        super().connection_made(transport)
        self._all.made(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """As asyncio's."""
        self._all.lost(self)
        self._all.endings.add(partial(super().connection_lost, exc))

    def data_received(self, data: bytes) -> None:
        """As asyncio's."""
        if self._close and data and self._current_request is None:
            self.cut(ENDING)
            return
        super().data_received(data)
        if self._current_request is not None:
            self.begun = None
            self._all.arrives(self)
        elif self._messages:
            self.begun = None
            if len(data) > LARGE_PIECE and not self._messages[-1][1].is_eof():
                self._all.pace.took(self)
        elif self.begun is None and data:
            self.begun = self._loop.time()

    def understood(self) -> None:
        """The body of its request need not be held for as long as it is served."""
        self._all.understood(self)

    def hold(self) -> None:
        """Read nothing more for now, however much there is room for."""
        self.paced = True
        self._pause_transport_reading()

    def go_on(self) -> None:
        """Read again, as far as there is room."""
        self.paced = False
        if not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def _resume_transport_reading(self) -> None:
        if not self.paced:
            super()._resume_transport_reading()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """As aiohttp's; bytes that are no request are the client's mistake, not worth a trace, nor
        is it worth one that it is gone.
        """
        error = kw.get("exc_info")
        gone = self.transport is None and isinstance(error, ConnectionError)
        if gone or isinstance(error, HttpProcessingError):
            _log.debug("request_malformed", error=type(error).__name__)
        else:
            super().log_exception(*args, **kw)

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """End: what is under way or was on its way is answered, within `timeout` seconds in all.

        aiohttp's waits that long twice, so that one call that hangs outlasts what a kubelet waits.
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
                task.cancel()
                await asyncio.wait((task,), timeout=_ENDED_WITHIN_S)
        await super().shutdown(_AT_ONCE_S)

    def pause_writing(self) -> None:
        """As asyncio's: the client does not read as fast as is written."""
        super().pause_writing()
        self._all.stalls(self)

    def resume_writing(self) -> None:
        """As asyncio's."""
        self._all.reads(self)
        super().resume_writing()

    def cut(self, last: bytes = b"") -> None:
        """End it now; `last` is written where nothing else waits to be."""
        transport = self.transport
        if transport is None:
            return
        if last and not transport.get_write_buffer_size():
            transport.write(last)
            self.force_close()
        else:
            transport.abort()


class Connections:
    """All connections of one server.

    Args:
        limits: what they may take.
        server: aiohttp's, whose handlers answer.

    Attributes:
        loop: the event loop.
        cut: connections that were cut so far, by reason.
        endings: what is left to do for connections that are lost.
        pace: when those that bring large bodies read on.
        late_s: how long a connection that waits for a request is left open at the end, in seconds.
    """

    def __init__(self, limits: ListenSettings, server: Server) -> None:
        self.loop = asyncio.get_running_loop()
        self.cut: dict[str, int] = {}
        self.late_s = LATE_S
        self.endings = Endings()
        self._limits = limits
        self._capacity = limits.capacity
        self._server = server
        self._settings: dict[str, Any] = {
            "access_log": None,
            "max_line_size": limits.header_bytes,
            "max_field_size": limits.header_bytes,
            "keepalive_timeout": limits.keepalive_timeout_s,
        }
        self._open: dict[Connection, None] = {}
        self._stalled: dict[Connection, None] = {}
        self._unread = 0
        self._bodies = Bodies(limits.arriving_bytes)
        self.pace = Pace()
        self._reserved = 0
        self._logged: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._before: Callable[..., Any] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def every(self) -> list[Connection]:
        """All of them."""
        return list(self._open)

    @property
    def unread(self) -> int:
        """Bytes of answers that wait for their clients to read them."""
        return self._unread

    @property
    def arriving(self) -> int:
        """Bytes of large request bodies that are not understood yet."""
        return self._bodies.held

    def __call__(self) -> Connection:
        """A connection that is about to be made."""
        return Connection(self, self._server, **self._settings)

    def start(self) -> None:
        """Begin to look after them."""
        self._before = self.loop.get_exception_handler()
        self.loop.set_exception_handler(self._loop_failed)
        self._later()

    def stop(self) -> None:
        """Leave them alone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.loop.set_exception_handler(self._before)

    # -- what connections tell -----------------------------------------------------------------

    def made(self, connection: Connection) -> None:
        """It is there."""
        if len(self._open) - self._reserved >= self._capacity and not self._evict():
            connection.reserve = True
            self._reserved += 1
            self.note("connections_full", connections=len(self._open))
            if self._reserved > RESERVED:
                self._end(connection, "full")
        self._open[connection] = None

    def lost(self, connection: Connection) -> None:
        """It has ended."""
        if connection in self._open:
            del self._open[connection]
            self._reserved -= connection.reserve
        self.reads(connection)
        self._bodies.done(connection)
        self.pace.forget(connection)

    def arrives(self, connection: Connection) -> None:
        """More of the body of its request came."""
        content = connection.request.content
        if content.total_bytes <= LARGE_PIECE:
            return
        self._bodies.more(connection)
        if not content.is_eof():
            self.pace.took(connection)
        while (one := self._bodies.too_much()) is not None:
            self._end(one, "arriving")

    def understood(self, connection: Connection) -> None:
        """The body of its request need not be held any more."""
        self._bodies.done(connection)

    def stalls(self, connection: Connection) -> None:
        """Its client does not read."""
        connection.stalled = self.loop.time()
        connection.mark = connection.unsent
        connection.held = connection.unread + connection.mark
        self._stalled[connection] = None
        self._unread += connection.held
        while self._unread > self._limits.unread_bytes and len(self._stalled) > 1:
            self._end(of_whom_most_is_held(self._stalled, lambda one: one.held), "unread")

    def reads(self, connection: Connection) -> None:
        """It does again, or is gone."""
        if connection in self._stalled:
            del self._stalled[connection]
            self._unread -= connection.held
        connection.stalled = None

    # -- looking after them --------------------------------------------------------------------

    def _later(self) -> None:
        limits = self._limits
        every = (limits.header_timeout_s, limits.body_timeout_s, limits.write_timeout_s)
        self._timer = self.loop.call_later(min(_TICK_S, *(s / 4 for s in every)), self._look)

    def _look(self) -> None:
        self._later()
        now = self.loop.time()
        self._bodies.forget_answered()
        if (error := used_up()) is not None:
            self._descriptors_used_up(error)
        for connection in list(self._open):
            reason = self._overdue(connection, now)
            if reason is not None:
                self._end(connection, reason)

    def _overdue(self, connection: Connection, now: float) -> str | None:
        """What a connection took too long over; None: nothing."""
        limits = self._limits
        if connection.stalled is not None:
            left = connection.unsent
            if left <= connection.mark - _PROGRESS_BYTES:
                connection.stalled, connection.mark = now, left
            return "write" if now - connection.stalled > limits.write_timeout_s else None
        request = connection.request
        if request is None:
            if connection.seen is not None:
                connection.seen, connection.since = None, now
            if not connection.waiting or (connection.used and connection.begun is None):
                return None  # aiohttp ends those that wait for their next request
            begun = connection.since if connection.begun is None else connection.begun
            return "header" if now - begun > limits.header_timeout_s else None
        if connection.seen is not request:
            connection.seen, connection.since = request, now
        elif not request.content.is_eof() and now - connection.since > limits.body_timeout_s:
            return "body"
        return None

    def _evict(self, most: int = 1) -> bool:
        """Cut those that have waited longest for a request, first those that never brought one."""
        waiting = [connection for connection in self._open if connection.waiting]
        waiting.sort(key=lambda connection: (connection.used, connection.since))
        for connection in waiting[:most]:
            self._end(connection, "evicted")
        return bool(waiting)

    def _end(self, connection: Connection, reason: str) -> None:
        self.cut[reason] = self.cut.get(reason, 0) + 1
        if reason != "evicted":
            self.note("connections_cut", reason=reason)
        connection.cut(_LAST_WORDS.get(reason, b""))
        self.lost(connection)

    def note(self, event: str, **what: Any) -> None:
        """One line a minute and kind."""
        kind = f"{event}:{what.get('reason', '')}"
        now = self.loop.time()
        if now - self._logged.get(kind, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            self._logged[kind] = now
            _log.warning(event, **what, cut=dict(self.cut), open=len(self._open))

    def _descriptors_used_up(self, error: object) -> None:
        self._evict(_EVICTED_AT_ONCE)
        self.note("descriptors_used_up", error=str(error))

    def _loop_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") == _NO_ACCEPT:  # asyncio says so a thousand times a second
            self._descriptors_used_up(context.get("exception"))
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)
