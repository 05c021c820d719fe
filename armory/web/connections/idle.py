"""Which connections wait for a request, and which of them makes room for another.

Owns: `Idle`. Never closes one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from operator import itemgetter

from armory.web.connections.connection import Connection

_REST_S = 5e-6
"""A connection: in 0.4 µs each all are put in order of their idleness, which is not done again for
as many times as long."""


class Idle:
    """Which connection makes room: who never had a request, the longest here first; then who waits
    longest for another one.

    Whoever opens connections where there is no room would make each of them cost a look at all.

    Args:
        loop: the event loop.
        every: all open connections.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, every: Collection[Connection]) -> None:
        self._loop = loop
        self._every = every
        self._unused: OrderedDict[Connection, None] = OrderedDict()  # and those that were until now
        self._used: list[tuple[float, Connection]] = []  # the most idle last
        self._again_at = float("-inf")

    def made(self, connection: Connection) -> None:
        """It is new."""
        self._unused[connection] = None

    def lost(self, connection: Connection) -> None:
        """It has ended."""
        self._unused.pop(connection, None)

    def forget_order(self) -> None:
        """Hold none that have ended."""
        self._used.clear()

    def next(self) -> Connection | None:
        """The one to make room; None: there is none just now."""
        used: list[Connection] = []
        found = None
        for connection in self._unused:
            if connection.used:
                used.append(connection)
            elif connection.waiting:
                found = connection
                break
        for connection in used:
            del self._unused[connection]
        return found or self._longest_idle()

    def _longest_idle(self) -> Connection | None:
        if (found := self._pop()) is not None or self._loop.time() < self._again_at:
            return found
        waiting = ((one.idle_until, one) for one in self._every if one.waiting)
        self._used = sorted(waiting, key=itemgetter(0))
        self._used.reverse()  # of those of the same millisecond, who came first is last
        self._again_at = self._loop.time() + _REST_S * len(self._every)
        return self._pop()

    def _pop(self) -> Connection | None:
        while self._used:
            until, connection = self._used.pop()
            if until == connection.idle_until and connection.waiting and connection in self._every:
                return connection
        return None
