"""A manual clock.

Owns: `FakeClock`. Never waits in real time.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count


class FakeClock:
    """Satisfies `armory.upstreams.clock.Clock`.

    Args:
        start: the first reading, seconds.
    """

    def __init__(self, start: float = 1_000.0) -> None:
        self._now = start
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """The current time, seconds."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced by `seconds`."""
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), wake))
        await wake

    @property
    def sleeping(self) -> int:
        """The number of tasks that wait on this clock."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Advance the clock and wake the tasks that are due, in order; each of them runs."""
        until = self._now + seconds
        while self._sleepers and self._sleepers[0][0] <= until:
            when, _, wake = heapq.heappop(self._sleepers)
            self._now = max(self._now, when)
            if not wake.done():
                wake.set_result(None)
            for _ in range(5):
                await asyncio.sleep(0)
        self._now = until
        await asyncio.sleep(0)
