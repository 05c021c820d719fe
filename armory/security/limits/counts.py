"""Limits counted in this process: token buckets, daily counts, running requests.

Owns: `LocalCounts`; clocks are passed in. Never waits for anything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from armory.domain.limits import SLOT_WAIT_S, Counted, Demand, DemandOutcome, Rate, day_of
from armory.security.limits.ratelimit import RateLimiter


class LocalCounts:
    """The usage of each caller. It starts empty: counts are lost at a restart.

    Args:
        wall: seconds since 1970, for days.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._wall = wall
        self._buckets: tuple[Rate, RateLimiter] | None = None
        self._day = 0
        self._used: Counter[tuple[str, Counted]] = Counter()
        self._running: Counter[str] = Counter()

    def take(self, demand: Demand) -> DemandOutcome:
        """Take everything that a request needs, or nothing."""
        who, per_day = demand.identity, demand.per_day
        if demand.slots is not None and self._running[who] >= demand.slots:
            return DemandOutcome("concurrency", SLOT_WAIT_S)
        if per_day is not None:
            day, left_s = day_of(self._wall())
            if day != self._day:
                self._day, self._used = day, Counter()
            if self._used[who, per_day.kind] >= per_day.limit:
                return DemandOutcome(per_day.kind, left_s)
        if demand.rate is not None:
            wait_s = self._bucket(demand.rate).tried(demand.caller)
            if wait_s:
                return DemandOutcome("rate", wait_s)
        if per_day is not None:
            self._used[who, per_day.kind] += 1
        if demand.slots is None:
            return DemandOutcome()
        self._running[who] += 1
        return DemandOutcome(lease=who)

    def give_back(self, lease: str) -> None:
        """Release the slot of a finished request."""
        self._running[lease] -= 1
        if self._running[lease] <= 0:
            del self._running[lease]

    def _bucket(self, rate: Rate) -> RateLimiter:
        if self._buckets is None or self._buckets[0] != rate:
            self._buckets = rate, RateLimiter(rate.per_s, rate.burst)
        return self._buckets[1]
