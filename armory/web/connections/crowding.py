"""Fairness when all connections are busy: which connection of the largest caller makes room.

Owns: `Crowding`. Never closes a connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection

from armory.web.connections.connection import Connection

_REST_S = 1e-5
"""Pause for each connection after all were counted by caller, which takes 1 µs each: otherwise a
caller that opens connections while there is no room would have all of them counted each time."""


class Crowding:
    """Makes room when all connections are busy: a caller with more than half of them loses its
    newest one to another caller. No connection of anybody else is closed, and none of its own for
    that caller itself.

    Args:
        loop: the event loop.
        every: all open connections, oldest first.
        capacity: the largest number of connections.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, every: Collection[Connection], capacity: int
    ) -> None:
        self._loop = loop
        self._every = every
        self._capacity = capacity
        self._caller = ""
        self._surplus: list[Connection] = []  # the caller's beyond half of all, the newest last
        self._again_at = float("-inf")

    def next(self, caller: str) -> Connection | None:
        """The connection to close for a caller; None: there is none at the moment."""
        if not self._surplus and self._loop.time() >= self._again_at:
            self._count()
        while self._surplus and caller != self._caller:
            connection = self._surplus.pop()
            if connection in self._every and whose(connection) == self._caller:
                return connection
        return None

    def forget(self) -> None:
        """Drop references to connections that have ended."""
        self._surplus.clear()

    def _count(self) -> None:
        self._again_at = self._loop.time() + _REST_S * len(self._every)
        counted = [(whose(one), one) for one in self._every if not one.reserve]
        ((caller, most),) = Counter(key for key, _ in counted).most_common(1) or [("", 0)]
        if not caller or most <= self._capacity // 2:
            return
        self._caller = caller
        self._surplus = [one for key, one in counted if key == caller][self._capacity // 2 :]


def whose(connection: Connection) -> str:
    """The caller of a connection's last request; "" if unknown."""
    return connection.caller if connection.account is None else connection.account.key
