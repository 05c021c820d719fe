"""When the garbage collector goes through everything, which stops all threads meanwhile.

Owns: the thresholds of `gc` and what it is spared. Never imports another room.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

EVERY_S = 1.0
SPARED = 200_000
"""So many more blocks of memory, half as many objects, are taken for data that stays: to go through
them takes some 20 ms."""
GROWN = 20_000
SETTLED_S = 20.0
"""Between two times that everything is gone through, and after what was set aside last."""
AGAIN_S = 10.0
YOUNG = 20_000
"""Between two looks at what is new, which takes 1 to 2 ms. The interpreter's own 700 come so often
while 32 calls are under way, none of them garbage, that they take 8 % of a call."""
_NEVER = 2**31 - 1
_MIDDLE, _FIRST = 2, 1


class Collector:
    """Has the garbage collector go through what is new often, and through large data seldom.

    By itself it goes through all objects again and again while a large catalog is read: 0.2 s each
    time with 100,000 tools. Here they are set aside as they come; they end with their last
    reference as ever. Cycles among them are found once most of them have ended.

    Args:
        spared: so many new objects are set aside.
        clock: seconds, monotonic.
    """

    def __init__(self, spared: int = SPARED, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = spared
        self._clock = clock
        self._base = self._most = self._last = sys.getallocatedblocks()
        self._looked_at = self._spared_at = self._settled_at = clock()

    def settle(self) -> None:
        """Go through everything once, and spare what is left from now on."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._base = self._most = self._last = sys.getallocatedblocks()
        self._looked_at = self._settled_at = self._clock()

    def look(self) -> None:
        """Collect, or set aside, what came since; nothing where nothing did.

        Blocks are counted, not objects: to count those takes as long as to go through them.
        """
        blocks, now = sys.getallocatedblocks(), self._clock()
        if gc.get_count()[2] >= _FIRST:
            grown = blocks - self._last
            if grown > self._limit:
                gc.freeze()
                self._most = max(self._most, blocks)
                self._last, self._looked_at, self._spared_at = blocks, now, now
            elif grown > GROWN or now - self._looked_at >= AGAIN_S:
                gc.collect()
                self._last, self._looked_at = min(self._last, sys.getallocatedblocks()), now
        if self._most > self._base + self._limit and self._due(blocks, now):
            self.settle()

    def _due(self, blocks: int, now: float) -> bool:
        """Whether most of what was set aside has ended, or all has doubled and grows no more."""
        if now - self._settled_at < SETTLED_S:
            return False
        if blocks - self._base < (self._most - self._base) / 2:
            return True
        return blocks > 2 * self._base and now - self._spared_at >= SETTLED_S

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.look()

    @contextmanager
    def in_charge(self) -> Generator[None]:
        """For the whole process: full collections are this one's alone."""
        thresholds = gc.get_threshold()
        gc.set_threshold(YOUNG, _MIDDLE, _NEVER)
        try:
            yield
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()
