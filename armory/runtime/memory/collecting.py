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

EVERY_S = 0.25
SPARED = 25_000
"""So many more blocks of memory, half as many objects, within one look are taken for data that
stays: to go through them takes 3 to 10 ms, in which nobody is answered."""
HIDDEN = 200_000
"""Cycles may be in so many more blocks that were set aside before everything is gone through."""
GROWN = 4_000
"""So many more blocks are gone through, and set aside where they stay: whoever opens more and more
connections would have all that they hold gone through at each look. Four short looks a second keep
nobody waiting as one long one does."""
LONG_S = 0.003
"""What takes longer to go through is set aside where it stays, few blocks as it may be: 40,000
objects that nobody looked at for a while take 25 to 50 ms, each time."""
WHOLE = 1_500_000
"""Of more blocks than that nothing is gone through in whole, or seldom: it takes 0.1 to 0.2 s."""
WHOLE_S, SELDOM_S = 600.0, 6 * 3600.0
"""Between two times that everything is gone through: up to `WHOLE` blocks, where nobody asks
anything; else."""
QUIET = 0.02
"""Share of its time for which the event loop is busy where nobody asks anything."""
SETTLED_S = 20.0
"""After what was set aside last; what comes and goes may have gone by then."""
AGAIN_S = 10.0
YOUNG = 500_000
"""New objects from which on the interpreter looks at them by itself, between two looks here. One
that holds many, as a list of 100,000 tools, takes 10 to 20 ms each time that it is looked at while
it is new, and all threads wait; a thread makes 200,000 between two looks, hardly as many as these.
The interpreter's own 700 come so often while 32 calls are under way, none of them garbage, that
they take 8 % of a call."""
NEW = 5_000
"""So many new objects are looked at: 1 to 2 ms."""
_NEVER = 2**31 - 1
_MIDDLE = 1


class Collector:
    """Has the garbage collector go through what is new often, and through large data seldom.

    By itself it goes through all objects again and again while a large catalog is read: 0.2 s each
    time with 100,000 tools. Here they are set aside as they come; they end with their last
    reference as ever. Cycles among them are found later, unless as few are left as would be set
    aside unseen.

    Args:
        spared: so many new blocks are set aside without a look.
        hidden: where so many more are left of them, cycles are looked for.
        clock: seconds, monotonic.
        spent: seconds that this thread was busy.
    """

    def __init__(
        self,
        spared: int = SPARED,
        clock: Callable[[], float] = time.monotonic,
        hidden: int = HIDDEN,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._limit = spared
        self._hidden = hidden
        self._clock, self._spent = clock, spent
        self._base = self._last = sys.getallocatedblocks()
        self._looked_at = self._spared_at = self._settled_at = self._seen_at = clock()
        self._busy_s = spent()

    def begun(self) -> None:
        """Spare what a start left; gone through first where it is not much."""
        if sys.getallocatedblocks() - self._last <= self._hidden:
            gc.collect()
        self._spare()
        self._base, self._settled_at = self._last, self._looked_at

    def settle(self) -> None:
        """Go through everything once, and spare what is left from now on."""
        gc.unfreeze()
        gc.collect()
        self._spare()
        self._base, self._settled_at = self._last, self._looked_at

    def _spare(self) -> None:
        gc.freeze()
        self._last = sys.getallocatedblocks()
        self._looked_at = self._spared_at = self._clock()

    def look(self) -> None:
        """Collect, or set aside, what came since; nothing where nothing did.

        Blocks are counted, not objects: to count those takes as long as to go through them.
        """
        blocks, now = sys.getallocatedblocks(), self._clock()
        quiet = self._quiet(now)
        self._last = min(self._last, blocks)  # what ended and comes again is new again
        new, *looked_at = gc.get_count()
        if new >= NEW or any(looked_at):
            grown = blocks - self._last
            if grown > self._limit:
                self._spare()
            elif grown > GROWN or now - self._looked_at >= AGAIN_S:
                self._go_through()
        if self._due(blocks, now, quiet):
            self.settle()

    def _quiet(self, now: float) -> bool:
        """Whether nothing was done since the last look."""
        spent, passed = self._spent(), now - self._seen_at
        busy, self._busy_s, self._seen_at = spent - self._busy_s, spent, now
        return busy <= QUIET * passed

    def _go_through(self) -> None:
        """Collect, and set aside what is left where that is much, or took long."""
        begun = self._spent()
        gc.collect()
        took = self._spent() - begun
        left, self._looked_at = sys.getallocatedblocks(), self._clock()
        if left - self._last > GROWN or took > LONG_S:
            self._spare()
        self._last = min(self._last, left)

    def _due(self, blocks: int, now: float, quiet: bool) -> bool:
        """Whether enough was set aside and is left that cycles may hold, and it is time."""
        soon = quiet and blocks <= WHOLE and now - self._spared_at >= SETTLED_S
        every = WHOLE_S if soon else SELDOM_S
        return blocks > self._base + self._hidden and now - self._settled_at >= every

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.look()

    @contextmanager
    def in_charge(self) -> Generator[None]:
        """For the whole process: full collections are this one's alone, what is there is spared."""
        thresholds = gc.get_threshold()
        gc.set_threshold(YOUNG, _MIDDLE, _NEVER)
        self._spare()
        try:
            yield
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()
