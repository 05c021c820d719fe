"""Bounded concurrency: a limited number of calls at once, and a bounded queue before them.

Owns: `CallQueue`. Never imports anything of Armory.
"""

from __future__ import annotations

import asyncio
from collections import deque


class QueueFull(Exception):
    """Too many callers are waiting already."""


class CallQueue:
    """Admits `limit` callers at once; up to `max_queue` more wait, first come, first served.

    Attributes:
        inside: callers that are in.
    """

    def __init__(self, limit: int, max_queue: int) -> None:
        self._limit = max(1, limit)
        self._max_queue = max_queue
        self._queue: deque[asyncio.Future[None]] = deque()
        self._empty = asyncio.Event()
        self.inside = 0

    @property
    def waiting(self) -> int:
        """Callers in the queue."""
        return len(self._queue)

    def try_enter(self) -> bool:
        """Enter if there is a free place now."""
        if self.inside < self._limit and not self._queue:
            self.inside += 1
            return True
        return False

    async def enter(self, timeout_s: float) -> None:
        """Enter, waiting for a free place.

        Raises:
            QueueFull: the queue has no place either.
            TimeoutError: none became free in time.
        """
        if self.try_enter():
            return
        if len(self._queue) >= self._max_queue:
            raise QueueFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def leave(self) -> None:
        """Hand the place to the next caller in the queue."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.inside -= 1
        if self.inside == 0:
            self._empty.set()

    async def drained(self, timeout_s: float) -> bool:
        """Wait until nobody is inside; returns False when that took too long."""
        self._empty.clear()
        if not self.inside:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True
