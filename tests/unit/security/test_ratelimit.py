"""Token buckets."""

from __future__ import annotations

import pytest

from armory.errors import ConfigError
from armory.security.limits.ratelimit import RateLimiter


def test_a_burst_passes_then_the_rate_counts() -> None:
    now = 0.0
    limiter = RateLimiter(2.0, 3, clock=lambda: now)
    assert [limiter.tried("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert limiter.tried("a") == pytest.approx(0.5)
    now = 0.5
    assert limiter.tried("a") == 0.0
    assert limiter.tried("a") > 0.0
    assert limiter.tried("b") == 0.0
    now = 100.0
    assert [limiter.tried("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert limiter.tried("a") == pytest.approx(0.5)


def test_a_limit_that_admits_nothing_is_refused() -> None:
    for rate, burst in ((0.0, 1), (1.0, 0)):
        with pytest.raises(ConfigError):
            RateLimiter(rate, burst)


def test_the_least_burst_is_one_request() -> None:
    limiter = RateLimiter(1.0, 1, clock=lambda: 0.0)
    assert limiter.tried("a") == 0.0
    assert limiter.tried("a") == pytest.approx(1.0)
