"""Token buckets."""

from __future__ import annotations

import pytest

from armory.domain.principal import Principal
from armory.errors import ConfigError, RateLimited
from armory.security.ratelimit import RateLimiter


def test_a_burst_passes_then_the_rate_counts() -> None:
    now = 0.0
    limiter = RateLimiter(2.0, 3, clock=lambda: now)
    assert [limiter.take("a") for _ in range(3)] == [2.0, 1.0, 0.0]
    with pytest.raises(RateLimited) as refused:
        limiter.take("a")
    assert refused.value.retry_after_s == pytest.approx(0.5)
    now = 0.5
    assert limiter.take("a") == 0.0
    now = 100.0
    assert limiter.take("a") == 2.0


@pytest.mark.anyio
async def test_principals_do_not_share_a_bucket() -> None:
    limiter = RateLimiter(1.0, 1, clock=lambda: 0.0)
    await limiter.acquire(Principal("a"), "tools/call", "x")
    await limiter.acquire(Principal("b"), "tools/call", "x")
    await limiter.acquire(Principal("a", method="jwt"), "tools/call", "x")
    with pytest.raises(RateLimited):
        await limiter.acquire(Principal("a"), "tools/call", "y")


def test_a_limit_that_admits_nothing_is_refused() -> None:
    for rate, burst in ((0.0, 1), (1.0, 0)):
        with pytest.raises(ConfigError):
            RateLimiter(rate, burst)
