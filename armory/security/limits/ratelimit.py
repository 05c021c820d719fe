"""Rate limits: requests a second for each caller, with bursts.

Owns: the token bucket; the clock is passed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache

from armory.errors import ConfigError

_BUCKETS = 50_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RateLimiter:
    """One token bucket for each caller.

    Args:
        rate_per_s: requests a second that a caller may keep up.
        burst: requests that it may make at once after a pause.
        clock: seconds, monotonic.

    Raises:
        ConfigError: a rate or burst that lets nothing through.
    """

    def __init__(
        self, rate_per_s: float, burst: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise ConfigError(f"a rate of {rate_per_s}/s with a burst of {burst} admits nothing")
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._clock = clock
        self._buckets: LRUCache[str, _Bucket] = LRUCache(_BUCKETS)

    def tried(self, key: str) -> float:
        """Take one token: returns 0.0, or the seconds until there is one."""
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._burst, now)
        grown = bucket.tokens + max(0.0, now - bucket.filled_at) * self._rate_per_s
        bucket.tokens = min(float(self._burst), grown)
        bucket.filled_at = now
        if bucket.tokens < 1.0:
            return (1.0 - bucket.tokens) / self._rate_per_s
        bucket.tokens -= 1.0
        return 0.0
