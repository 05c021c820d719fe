"""Which idle connection is closed to make room for a new one.

Owns: `Idle`. Never closes one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterator
from operator import itemgetter

from armory.web.connections.connection import Connection

_REST_S = 5e-6
"""Pause for each connection after all were sorted by idleness, which takes 0.4 µs each."""


class Idle:
    """Chooses the connection to close: first those that never had a request, oldest first; then
    those idle for longest; then those whose client has sent or read nothing for longest.

    The order is cached: computing it for each new connection would look at all of them.

    Args:
        loop: the event loop.
        every: all open connections.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, every: Collection[Connection]) -> None:
        self._loop = loop
        self._every = every
        self._unused: OrderedDict[Connection, None] = OrderedDict()  # some may be used by now
        self._order: list[tuple[bool, float, Connection]] = []  # the first to close comes last
        self._again_at = float("-inf")

    def made(self, connection: Connection) -> None:
        """Record a new connection."""
        self._unused[connection] = None

    def lost(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._unused.pop(connection, None)

    def forget_order(self) -> None:
        """Drop references to connections that have ended."""
        self._order.clear()

    def next(self) -> Connection | None:
        """The connection to close; None: there is none at the moment."""
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
        return found or self._longest()

    def _longest(self) -> Connection | None:
        if (found := self._pop()) is not None or self._loop.time() < self._again_at:
            return found
        self._order = sorted(self._waiting(), key=itemgetter(0, 1))
        self._order.reverse()  # of two of the same millisecond the older one comes last
        self._again_at = self._loop.time() + _REST_S * len(self._every)
        return self._pop()

    def _waiting(self) -> Iterator[tuple[bool, float, Connection]]:
        for connection in self._every:
            if connection.waiting:
                yield False, connection.idle_until, connection
            elif (since := connection.held_up_since) is not None:
                yield True, since, connection

    def _pop(self) -> Connection | None:
        while self._order:
            held_up, since, connection = self._order.pop()
            if connection not in self._every:
                continue
            if held_up:
                still = connection.held_up_since == since
            else:
                still = connection.waiting and connection.idle_until == since
            if still:
                return connection
        return None
