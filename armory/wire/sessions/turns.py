"""Turns of the event loop that many requests of one caller take one after another.

Owns: `OneATurn`, and `Shares`, which says when. A hundred requests that begin at once are one long
turn, in which nobody else is answered. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

MANY = 8
"""From so many requests of one caller under way on, the next begins in turn."""


class OneATurn:
    """Lets one request of each caller begin in a turn of the event loop."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def next(self, caller: str) -> None:
        """Wait for a turn in which no other request of the caller begins."""
        lock = self._locks.get(caller)
        if lock is None:
            lock = self._locks[caller] = asyncio.Lock()
        async with lock:
            await asyncio.sleep(0)


class Shares:
    """Has requests of a caller of whom many are under way begin one in a turn, beside others.

    Where nobody else asks anything, nobody waits.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, int] = {}
        self._turns = OneATurn()

    def enter(self, caller: str) -> bool:
        """A request begins; whether it has to await `turn` first. `leave` follows in any case."""
        before = self._under_way.get(caller, 0)
        self._under_way[caller] = before + 1
        return before >= MANY and len(self._under_way) > 1

    async def turn(self, caller: str) -> None:
        """Wait for a turn in which no other such request of the caller begins."""
        await self._turns.next(caller)

    def leave(self, caller: str) -> None:
        """It has ended."""
        left = self._under_way[caller] - 1
        if left:
            self._under_way[caller] = left
        else:
            del self._under_way[caller]
