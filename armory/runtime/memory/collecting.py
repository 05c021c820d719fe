"""Schedules full garbage collections, which stop all threads.

Owns: the thresholds of `gc` and what it is spared. Never imports another room.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

EVERY_S = 0.1
SPARED = 6_000
"""Growth in objects within one look that is taken for data that stays: going through it takes some
milliseconds, in which nobody is answered."""
NEW = 2_000
"""New objects from which on they are collected: half a millisecond. Ten short looks a second delay
nobody as one long one does."""
GROWN = 1_000
"""Objects that stayed from which on they are set aside: otherwise each look would go through all
that is held by a caller who opens more and more connections."""
LONG_S = 0.002
"""A collection that takes longer sets aside what stays, even if it is few objects: 40,000 that were
not visited for a while take 25 to 50 ms, each time."""
HIDDEN = 200_000
"""Blocks of memory, half as many objects, that may be set aside (with cycles among them) until
everything is collected."""
WHOLE = 1_500_000
"""Blocks of memory above which a full collection is seldom or never done: it takes 0.1 to 0.2 s."""
WHOLE_S, SELDOM_S = 600.0, 6 * 3600.0
"""Seconds between two full collections: with up to `WHOLE` blocks, while nobody asks anything; and
otherwise."""
QUIET = 0.02
"""Share of its time that the event loop is busy while nobody asks anything."""
COUNTED_S = 10.0
"""Seconds between two counts of blocks: counting takes a millisecond with 300 MB."""
SETTLED_S = 20.0
"""Seconds after objects were set aside last; temporary ones may have gone by then."""
_NEVER = 2**31 - 1
"""New objects from which on the interpreter looks at them by itself, between two looks here. One
that holds many, as a list of 100,000 tools, takes 10 to 20 ms each time that it is looked at while
it is new, and all threads wait. The interpreter's own 700 come so often while 32 calls are under
way, none of them garbage, that they take 8 % of a call."""


class Collector:
    """Collects new objects often, and large data seldom.

    By default the collector traverses all objects again and again while a large catalog is loaded:
    0.2 s each time with 100,000 tools. Here new data is frozen as it comes; it is still freed with
    its last reference. Cycles in frozen data are found later, unless too few remain to matter.

    Args:
        spared: so many new objects are set aside without a look.
        hidden: where so many more blocks are left of what was set aside, cycles are looked for.
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
        self._base = sys.getallocatedblocks()
        self._spared_at = self._settled_at = self._counted_at = self._seen_at = clock()
        self._busy_s = spent()

    def freeze_start(self) -> None:
        """Freeze what a start left; collected first where it is not much."""
        if _new() <= self._hidden // 2:
            gc.collect()
        self._settled()

    def settle(self) -> None:
        """Collect once, and freeze what is left."""
        gc.unfreeze()
        gc.collect()
        self._settled()

    def _settled(self) -> None:
        self._spare()
        self._base, self._settled_at = sys.getallocatedblocks(), self._spared_at

    def _spare(self) -> None:
        gc.freeze()
        self._spared_at = self._clock()

    def look(self) -> None:
        """Collect or freeze what came since; does nothing where little did."""
        new, now = _new(), self._clock()
        quiet = self._quiet(now)
        if new >= NEW:
            if new > self._limit or _collected() > self._limit:
                self._spare()
            else:
                self._go_through()
        if self._due(now, quiet):
            self.settle()

    def _quiet(self, now: float) -> bool:
        """Whether the thread was idle since the last look."""
        spent, passed = self._spent(), now - self._seen_at
        busy, self._busy_s, self._seen_at = spent - self._busy_s, spent, now
        return busy <= QUIET * passed

    def _go_through(self) -> None:
        """Collect, and freeze the rest where that is much, or took long."""
        begun = self._spent()
        gc.collect()
        if self._spent() - begun > LONG_S or _collected() > GROWN:
            self._spare()

    def _due(self, now: float, quiet: bool) -> bool:
        """Whether frozen data may hold enough garbage in cycles, and it is time to look."""
        soon = quiet and now - self._spared_at >= SETTLED_S
        passed = now - self._settled_at
        if passed < (WHOLE_S if soon else SELDOM_S) or now - self._counted_at < COUNTED_S:
            return False
        blocks, self._counted_at = sys.getallocatedblocks(), now
        small = blocks <= WHOLE
        return blocks > self._base + self._hidden and (small or passed >= SELDOM_S)

    async def run(self) -> None:
        """Look repeatedly, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.look()

    @contextmanager
    def in_charge(self) -> Generator[None]:
        """Take over garbage collection for the whole process; existing objects are frozen."""
        thresholds = gc.get_threshold()
        gc.set_threshold(_NEVER, _NEVER, _NEVER)
        self._spare()
        try:
            yield
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()


def _new() -> int:
    """Objects created since the last collection, less those freed, old ones among them."""
    return gc.get_count()[0]


def _collected() -> int:
    """Objects that a collection goes through: those that ended are not subtracted, as `_new` does
    while old data ends and new data comes.
    """
    return len(gc.get_objects())
