"""Rate limits: so many requests a second for each principal, with room for bursts.

Owns: the token bucket, pure over a clock that is passed in. Satisfies `gateway.ports.Limiter`.
Counts in this process alone: with several replicas each grants its own share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache

from armory.domain.principal import Principal
from armory.errors import ConfigError, RateLimited

_BUCKETS = 50_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RateLimiter:
    """One bucket for each principal.

    Args:
        rate_per_s: requests a second that a principal may keep up.
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

    async def acquire(self, principal: Principal, method: str, name: str) -> None:
        """Let one request through.

        Raises:
            RateLimited: the principal's bucket is empty; says when the next one passes.
        """
        self.take(principal.key)

    def take(self, key: str) -> float:
        """Take one token out of a bucket; how many are left.

        Raises:
            RateLimited: there is none.
        """
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._burst, now)
        grown = bucket.tokens + max(0.0, now - bucket.filled_at) * self._rate_per_s
        bucket.tokens = min(float(self._burst), grown)
        bucket.filled_at = now
        if bucket.tokens < 1.0:
            wait_s = (1.0 - bucket.tokens) / self._rate_per_s
            raise RateLimited(
                f"more than {self._rate_per_s:g} requests a second; try again in {wait_s:.2g} s",
                retry_after_s=wait_s,
                limit=self._burst,
            )
        bucket.tokens -= 1.0
        return bucket.tokens
