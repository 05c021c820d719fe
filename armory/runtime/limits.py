"""Rate limits and plan quotas of each caller.

Owns: the order of the two, and swapping the rate while the gateway serves. Satisfies
`gateway.ports.Limiter`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from armory.config import Config
from armory.domain.principal import Principal
from armory.errors import RateLimited
from armory.gateway.ports import Limiter
from armory.security.ratelimit import RateLimiter


class Limits:
    """The limits of one gateway.

    Args:
        config: says the rate.
        plans: what comes after it; None: nothing does.
        refused: told of every request that was one too many for the rate.
    """

    def __init__(self, config: Config, plans: Limiter | None, refused: Callable[[], None]) -> None:
        self._rate = rate_of(config)
        self._plans = plans
        self._refused = refused

    def reconfigure(self, old: Config, new: Config) -> None:
        """Another rate; buckets stay as full as they are where it is the same."""
        if old.security.rate_limit != new.security.rate_limit:
            self._rate = rate_of(new)

    def take(self, principal: Principal) -> None:
        """Count one request.

        Raises:
            RateLimited: the principal has used up its rate.
        """
        if self._rate is None:
            return
        try:
            self._rate.take(principal.key)
        except RateLimited:
            self._refused()
            raise

    async def acquire(self, principal: Principal, method: str, name: str) -> None:
        """As `gateway.ports.Limiter.acquire`."""
        if self._rate is not None:
            self.take(principal)
        if self._plans is not None:
            await self._plans.acquire(principal, method, name)


def rate_of(config: Config) -> RateLimiter | None:
    """The limiter that `security.rate_limit` describes."""
    block = config.security.rate_limit
    if block is None:
        return None
    return RateLimiter(block.per_s, block.burst or max(1, ceil(block.per_s)))
