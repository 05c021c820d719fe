"""Rate limits, quotas and plans of each caller.

Owns: their order, the errors of refusals, counting in this process while the replicas' counts are
unreachable, and changing the rules at a reload. Satisfies `gateway.ports.Limiter`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Protocol

from armory.config import Config
from armory.domain.limits import Counted, Demand, DemandOutcome, Exceeded, PerDay, Rate
from armory.domain.principal import Principal
from armory.errors import BackendError, QuotaExceeded, RateLimited
from armory.gateway.calls.meta_tools import CALL_METHOD
from armory.gateway.lists.tool_lists import LIST
from armory.gateway.metatools.definitions import FIND, SEARCH
from armory.gateway.ports import Hold
from armory.logger import Logger
from armory.security.limits.counts import LocalCounts
from armory.security.limits.quotas import Quota, Quotas
from armory.storage.shared_counts import SharedCounts
from armory.tasks import spawn, stop

_log = Logger(__name__)
_RETRY_S = 1.0
"""How long Redis is left alone after it failed: every call would wait for its deadline."""


class Plans(Protocol):
    """The plans of users (`accounts.service.Accounts`)."""

    async def acquire(self, principal: Principal, method: str, name: str) -> None:
        """Count one request against the plan of the caller's user.

        Raises:
            RateLimited: the plan is used up.
        """
        ...


class Limits:
    """The limits of one gateway.

    Args:
        config: has the rules.
        plans: the plans of users, which are asked last; None: there are none.
        refused: called for each refused request, with the limit that it exceeded.
        shared: the counts of all replicas; None: this process counts alone.
        clock: seconds, monotonic.

    Attributes:
        away: why the replicas cannot count together at the moment; None: they can, or need not.
    """

    def __init__(
        self,
        config: Config,
        plans: Plans | None,
        refused: Callable[[Exceeded], None],
        shared: SharedCounts | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate_of(config)
        self._quotas = quotas_of(config)
        self._plans = plans
        self._refused = refused
        self._shared = shared
        self._local = LocalCounts()
        self._clock = clock
        self._again_at = 0.0
        self._probing: asyncio.Task[None] | None = None
        self.away: str | None = None

    def reconfigure(self, config: Config) -> None:
        """Apply other rules; counts stay."""
        self._rate = rate_of(config)
        self._quotas = quotas_of(config)

    async def take(self, principal: Principal) -> None:
        """Count one request that is neither a call nor a search.

        Raises:
            RateLimited: the caller's rate is used up.
        """
        if self._rate is not None:
            await self._taken(Demand(principal.owner, principal.person, self._rate))

    async def searching(self, principal: Principal) -> None:
        """Count one search of a request that was counted already.

        Raises:
            QuotaExceeded: the caller's searches of today are used up.
        """
        quota = self._quotas.of(principal)
        if quota is not None and quota.searches_per_day is not None:
            per_day = PerDay("searches", quota.searches_per_day)
            await self._taken(Demand(principal.owner, principal.person, None, per_day))

    async def acquire(self, principal: Principal, method: str, name: str) -> Hold | None:
        """As `gateway.ports.Limiter.acquire`."""
        hold = None
        if self._quotas or self._rate is not None:
            demand = self._demand(principal, method, name)
            if demand is not None:
                hold = await self._taken(demand)
        if self._plans is not None:
            try:
                await self._plans.acquire(principal, method, name)
            except BaseException:
                if hold is not None:
                    hold()
                raise
        return hold

    def _demand(self, principal: Principal, method: str, name: str) -> Demand | None:
        quota = self._quotas.of(principal)
        per_day, slots = None, None
        if quota is not None:
            kind = _kind(method, name)
            limit = None if kind is None else _per_day(quota, kind)
            per_day = None if kind is None or limit is None else PerDay(kind, limit)
            slots = None if kind == "searches" else quota.concurrency
        if self._rate is None and per_day is None and slots is None:
            return None
        return Demand(principal.owner, principal.person, self._rate, per_day, slots)

    async def _taken(self, demand: Demand) -> Hold | None:
        """Take everything, or raise; returns the function that releases the slot, where one was
        taken.
        """
        shared = self._shared
        if shared is not None and self._clock() >= self._again_at:
            try:
                taken = await shared.take(demand)
            except BackendError as error:
                self._again_at = self._clock() + _RETRY_S
                if self.away is None:
                    _log.warning("limits_not_shared", error=error.message)
                if self._probing is None or self._probing.done():
                    self._probing = spawn(self._until_back(shared), "limits: probe")
                self.away = error.message
            else:
                self._back()
                return self._result(demand, taken, shared.give_back)
        return self._result(demand, self._local.take(demand), self._local.give_back)

    async def _until_back(self, shared: SharedCounts) -> None:
        """Probe Redis until it counts again, even without calls."""
        while True:
            await asyncio.sleep(_RETRY_S)
            if self.away is None:
                return
            try:
                await shared.probe()
            except BackendError as error:
                self.away = error.message
            else:
                return self._back()

    def _back(self) -> None:
        if self.away is not None:
            _log.info("limits_shared_again")
            self.away = None

    async def close(self) -> None:
        """Stop probing."""
        await stop(self._probing)

    def _result(
        self, demand: Demand, taken: DemandOutcome, give_back: Callable[[str], None]
    ) -> Hold | None:
        if taken.exceeded is not None:
            self._refused(taken.exceeded)
            raise refusal(demand, taken)
        return partial(give_back, taken.lease) if taken.lease else None


def refusal(demand: Demand, taken: DemandOutcome) -> RateLimited:
    """The error for a demand that exceeds a limit."""
    wait_s = taken.wait_s
    if taken.exceeded == "rate" and demand.rate is not None:
        return RateLimited(
            f"more than {demand.rate.per_s:g} requests a second; try again in {wait_s:.2g} s",
            retry_after_s=wait_s,
            limit=demand.rate.burst,
        )
    if demand.per_day is not None and taken.exceeded == demand.per_day.kind:
        text = (
            f"the quota of {demand.per_day.limit:,} {demand.per_day.kind} a day is used up; it "
            f"begins anew at midnight UTC, in {_hours(wait_s)}"
        )
    else:
        text = (
            f"the quota of {demand.slots} requests at a time is used up; try again when one of "
            "those that run has ended"
        )
    return QuotaExceeded(text, retry_after_s=wait_s)


def _hours(seconds: float) -> str:
    hours, minutes = divmod(ceil(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _kind(method: str, name: str) -> Counted | None:
    if method == CALL_METHOD:
        return "searches" if name in (SEARCH, FIND) else "calls"
    return "searches" if method == LIST else None


def _per_day(quota: Quota, kind: Counted) -> int | None:
    return quota.calls_per_day if kind == "calls" else quota.searches_per_day


def rate_of(config: Config) -> Rate | None:
    """The settings of `security.rate_limit`."""
    block = config.security.rate_limit
    if block is None:
        return None
    return Rate(block.per_s, block.burst or max(1, ceil(block.per_s)))


def quotas_of(config: Config) -> Quotas:
    """The settings of `security.quotas`."""
    return Quotas(
        [
            Quota(tuple(rule.who), rule.calls_per_day, rule.searches_per_day, rule.concurrency)
            for rule in config.security.quotas
        ]
    )
