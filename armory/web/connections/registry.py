"""All client connections: their number, and the timeouts of each.

Owns: `Connections`, which cuts those that stay silent, stop half-way or do not read. A new
connection takes the place of one that waits for its client; when all are busy, of one of whoever
has more than half of them, or only health checks are answered. Never reads the content.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_server import Server

from armory.logger import Logger
from armory.web.connections.arriving import COUNTED_BYTES, Arriving, first_of_largest_caller
from armory.web.connections.connection import Connection
from armory.web.connections.crowding import Crowding
from armory.web.connections.descriptors import used_up
from armory.web.connections.endings import Endings
from armory.web.connections.exchanges import check_library
from armory.web.connections.hanging_up import end_if_hung_up
from armory.web.connections.idle import Idle
from armory.web.connections.pacing import Pace
from armory.web.connections.receiving import ENDING, TIMED_OUT, TOO_LARGE
from armory.web.settings import RESERVED, ListenSettings

_log = Logger(__name__)
_TICK_S = 1.0
LATE_S = 0.1
LATE_AMONG_REPLICAS_S = 1.0
"""How long an idle connection stays open once shutdown has begun: a request may be on its way.
Longer among replicas, where it takes a while until requests are sent to the others."""
_LOG_EVERY_S = 60.0
_EVICTED_AT_ONCE = 16
_WHOLE_HEADER = 4
"""How many times the bound of one header a whole one may have."""
_LOOKED_AT_AT_ONCE = 256
_PROGRESS_BYTES = 64 * 1024
_NO_ACCEPT = "socket.accept() out of system resource"
_LAST_WORDS = {"header": TIMED_OUT, "body": TIMED_OUT, "arriving": ENDING}
CUT_FOR = ("arriving", "body", "crowding", "evicted", "full", "header", "unread", "write")
"""Reasons for which connections are cut."""


class Connections:
    """All connections of one server.

    Args:
        limits: their number, times and memory.
        server: aiohttp's, whose handlers answer.

    Attributes:
        loop: the event loop.
        cut: connections that were cut so far, by reason.
        endings: clean-ups of lost connections.
        pace: when connections read on in large bodies.
        late_s: how long an idle connection stays open at shutdown, in seconds.

    Raises:
        ConfigError: connections of this aiohttp are none that can be served.
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
        check_library(RequestHandler(server, loop=self.loop, **self._settings))
        self._open: dict[Connection, None] = {}
        self._idle = Idle(self.loop, self._open)
        self._crowding = Crowding(self.loop, self._open, self._capacity)
        self._stalled: dict[Connection, None] = {}
        self._unread = 0
        self._arriving = Arriving(limits.arriving_bytes)
        self.pace = Pace()
        self._reserved = 0
        self._logged: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._before: Callable[..., Any] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def every(self) -> list[Connection]:
        """All open connections."""
        return list(self._open)

    @property
    def unread(self) -> int:
        """Bytes of answers that wait for their clients to read them."""
        return self._unread

    @property
    def arriving(self) -> int:
        """Bytes of requests that are not processed yet, over all connections."""
        return self._arriving.held

    def __call__(self) -> Connection:
        """Create the protocol of a new connection."""
        return Connection(self, self._server, **self._settings)

    def start(self) -> None:
        """Start checking connections for timeouts."""
        self._before = self.loop.get_exception_handler()
        self.loop.set_exception_handler(self._loop_failed)
        self._later()

    def stop(self) -> None:
        """Stop checking connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.loop.set_exception_handler(self._before)

    # -- what connections tell -----------------------------------------------------------------

    def made(self, connection: Connection) -> None:
        """As `Owner.made`; beyond the cap, an idle connection is closed, or else this one."""
        if len(self._open) - self._reserved >= self._capacity and not self._evict():
            connection.reserve = True
            self._reserved += 1
            self.note("connections_full", connections=len(self._open))
            if self._reserved > RESERVED:
                self._end(connection, "full")
        self._open[connection] = None
        self._idle.made(connection)

    def make_room(self, connection: Connection, caller: str) -> bool:
        """Admit a connection beyond the cap by closing one of a caller that has more than half of
        all; returns whether there was one.
        """
        found = self._crowding.next(caller)
        if found is None or connection not in self._open:
            return False
        self._end(found, "crowding")
        self._reserved -= connection.reserve
        connection.reserve = False
        return True

    def lost(self, connection: Connection) -> None:
        """As `Owner.lost`."""
        if connection in self._open:
            del self._open[connection]
            self._reserved -= connection.reserve
            self._idle.lost(connection)
        self.reads(connection)
        self._arriving.done(connection)
        self.pace.forget(connection)

    def arrives(self, connection: Connection) -> None:
        """As `Owner.arrives`; closes one connection where all together hold too much."""
        self._arriving.count(connection)
        while (one := self._arriving.too_much()) is not None:
            self._end(one, "arriving")

    def heads(self, connection: Connection) -> None:
        """As `Owner.heads`; closes the connection if its header is too large."""
        if connection.head > _WHOLE_HEADER * self._limits.header_bytes:
            self._end(connection, "header", TOO_LARGE)
        elif connection.head > COUNTED_BYTES:
            self.arrives(connection)

    def understood(self, connection: Connection) -> None:
        """As `Owner.understood`."""
        self._arriving.count(connection)

    def stalls(self, connection: Connection) -> None:
        """As `Owner.stalls`."""
        connection.stalled = self.loop.time()
        connection.mark = connection.unsent
        connection.held = 0
        self._stalled[connection] = None
        self.holds(connection)

    def holds(self, connection: Connection) -> None:
        """As `Owner.holds`; closes one connection where all unread answers hold too much."""
        now = connection.unread + connection.mark
        self._unread += now - connection.held
        connection.held = now
        while self._unread > self._limits.unread_bytes and len(self._stalled) > 1:
            self._end(first_of_largest_caller(self._stalled, lambda one: one.held), "unread")

    def reads(self, connection: Connection) -> None:
        """The client reads its answer again, or is gone."""
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
        self._idle.forget_order()
        self._crowding.forget()
        if (error := used_up()) is not None:
            self._descriptors_used_up(error)
        self._look_at(iter(list(self._open)), now)

    def _look_at(self, every: Iterator[Connection], now: float) -> None:
        """Check some of them now, and the rest in the next iterations of the event loop."""
        some = list(itertools.islice(every, _LOOKED_AT_AT_ONCE))
        for connection in some:
            self._arriving.count_again(connection)
            if connection.unheard and (transport := connection.transport) is not None:
                end_if_hung_up(transport)
            if connection in self._open and (reason := self._overdue(connection, now)) is not None:
                self._end(connection, reason)
        if some:
            self.loop.call_soon(self._look_at, every, now)

    def _overdue(self, connection: Connection, now: float) -> str | None:
        """The timeout that a connection has exceeded; None: none."""
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
        """Close up to `most` idle connections; returns whether there was one."""
        for count in range(most):
            connection = self._idle.next()
            if connection is None:
                return count > 0
            reason = "write" if connection.stalled is not None else "body"
            self._end(connection, "evicted" if connection.waiting else reason)
        return True

    def _end(self, connection: Connection, reason: str, last: bytes | None = None) -> None:
        self.cut[reason] = self.cut.get(reason, 0) + 1
        if reason != "evicted":
            self.note("connections_cut", reason=reason)
        connection.cut(_LAST_WORDS.get(reason, b"") if last is None else last)
        self.lost(connection)

    def note(self, event: str, **what: Any) -> None:
        """As `Owner.note`."""
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
