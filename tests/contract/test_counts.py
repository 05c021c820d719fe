"""Limits are counted alike in one process and over all replicas."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from armory.domain.limits import DAY_S, Demand, DemandOutcome, PerDay, Rate
from armory.errors import BackendError
from armory.security.limits.counts import LocalCounts
from armory.storage.redis_cache import RedisCache
from armory.storage.shared_counts import SharedCounts
from armory.testing.servers import RedisServer
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
SLOW = Rate(0.001, 2)


@dataclass
class Counts:
    """Either kind."""

    take: Callable[[Demand], Awaitable[DemandOutcome]]
    give_back: Callable[[str], None]


@pytest.fixture(params=["local", pytest.param("shared", marks=pytest.mark.redis)])
async def counts(request: pytest.FixtureRequest) -> AsyncIterator[Counts]:
    if request.param == "local":
        local = LocalCounts()

        async def take(demand: Demand) -> DemandOutcome:
            return local.take(demand)

        yield Counts(take, local.give_back)
        return
    url = request.getfixturevalue("redis").url
    shared = SharedCounts(RedisCache(url, prefix=f"{request.node.name}:"))
    yield Counts(shared.take, shared.give_back)
    await shared.aclose()


async def test_a_burst_passes_and_then_the_rate_counts(counts: Counts) -> None:
    demand = Demand("ann", "token:a", SLOW)
    assert [await counts.take(demand) for _ in range(2)] == [DemandOutcome(), DemandOutcome()]
    refused = await counts.take(demand)
    assert refused.exceeded == "rate"
    assert 900 < refused.wait_s <= 1_000
    assert await counts.take(Demand("ann", "token:b", SLOW)) == DemandOutcome()
    quick = Demand("bob", "token:c", Rate(1e9, 1))
    assert {(await counts.take(quick)).exceeded for _ in range(5)} == {None}


async def test_a_day_has_so_many_of_each_kind(counts: Counts) -> None:
    def demand(who: str, kind: str, limit: int = 2) -> Demand:
        return Demand(who, "x", None, PerDay("calls" if kind == "calls" else "searches", limit))

    assert [(await counts.take(demand("ann", "calls"))).exceeded for _ in range(3)] == [
        None,
        None,
        "calls",
    ]
    refused = await counts.take(demand("ann", "calls"))
    assert 0 < refused.wait_s <= DAY_S
    assert (await counts.take(demand("ann", "calls", 3))).exceeded is None  # more was allowed
    assert (await counts.take(demand("ann", "searches"))).exceeded is None
    assert (await counts.take(demand("bob", "calls"))).exceeded is None


async def test_so_many_run_at_a_time(counts: Counts) -> None:
    demand = Demand("ann", "x", None, None, 2)
    first, second = await counts.take(demand), await counts.take(demand)
    assert first.lease
    assert second.lease
    refused = await counts.take(demand)
    assert (refused.exceeded, refused.lease) == ("concurrency", "")
    assert refused.wait_s > 0
    assert (await counts.take(Demand("bob", "x", None, None, 1))).exceeded is None
    counts.give_back(first.lease)
    await passes(counts, demand)
    assert (await counts.take(demand)).exceeded == "concurrency"


async def passes(counts: Counts, demand: Demand) -> None:
    """A slot comes free."""
    for _ in range(1_000):
        if (await counts.take(demand)).exceeded is None:
            return
    raise AssertionError("no slot comes free")


async def test_what_is_refused_takes_nothing(counts: Counts) -> None:
    calls = PerDay("calls", 1)
    assert (await counts.take(Demand("ann", "x", SLOW, calls, 1))).exceeded is None
    assert (await counts.take(Demand("ann", "x", SLOW, calls, 1))).exceeded == "concurrency"
    assert (await counts.take(Demand("ann", "x", SLOW, calls, 2))).exceeded == "calls"
    assert (await counts.take(Demand("ann", "x", SLOW))).exceeded is None  # a token was left
    more = PerDay("calls", 2)
    assert (await counts.take(Demand("ann", "x", SLOW, more, 2))).exceeded == "rate"
    assert (await counts.take(Demand("ann", "y", SLOW, more, 2))).exceeded is None


def test_another_day_begins_anew() -> None:
    now = 5 * DAY_S - 1.5
    counts = LocalCounts(wall=lambda: now)
    demand = Demand("ann", "x", None, PerDay("calls", 1))
    assert counts.take(demand).exceeded is None
    assert counts.take(demand) == DemandOutcome("calls", 1.5)
    now = 5.0 * DAY_S
    assert counts.take(demand).exceeded is None


class Text(str):
    """A text of which can be told whether anybody still holds it."""

    __slots__ = ("__weakref__",)


def test_who_has_nothing_running_any_more_is_not_held() -> None:
    counts, held = LocalCounts(), list[weakref.ref[Text]]()
    for number in range(9):
        who = Text(f"caller {number}")
        held.append(weakref.ref(who))
        taken = counts.take(Demand(who, "x", None, None, 1))
        counts.give_back(taken.lease)
        del who, taken
    assert [one for one in held if one() is not None] == []


@pytest.mark.redis
async def test_replicas_count_together(redis: RedisServer) -> None:
    one, two = (SharedCounts(RedisCache(redis.url, prefix="together:")) for _ in range(2))
    demand = Demand("ann", "x", Rate(0.001, 4), PerDay("calls", 3), 2)
    first = await one.take(demand)
    assert first.exceeded is None
    assert (await two.take(demand)).exceeded is None
    assert (await two.take(demand)).exceeded == "concurrency"
    one.give_back(first.lease)
    await passes(Counts(two.take, two.give_back), demand)
    assert (await one.take(Demand("ann", "x", None, PerDay("calls", 3)))).exceeded == "calls"
    await one.aclose()
    await two.aclose()


@pytest.mark.redis
async def test_a_slot_lasts_while_it_is_renewed_and_no_longer(redis: RedisServer) -> None:
    store = RedisCache(redis.url, prefix="leases:")
    counts = SharedCounts(store)
    brief = SharedCounts(RedisCache(redis.url, prefix="leases:"), 0.001)
    demand = Demand("ann", "x", None, None, 1)
    assert (await counts.take(demand)).exceeded is None
    (key,) = set(counts._held.values())  # pyright: ignore[reportPrivateUsage]
    await store.run("return redis.call('DEL', KEYS[1])", (key,), ())  # as if it had run out
    await counts.renew()
    assert (await brief.take(demand)).exceeded == "concurrency"
    await store.run("return redis.call('DEL', KEYS[1])", (key,), ())
    await passes(Counts(brief.take, brief.give_back), demand)  # its own renewal may come between
    brief._held.clear()  # pyright: ignore[reportPrivateUsage]  # as if it had been killed
    await passes(Counts(counts.take, counts.give_back), demand)
    await counts.aclose()
    await brief.aclose()


@pytest.mark.redis
async def test_a_slot_that_is_on_its_way_back_arrives_before_the_end(redis: RedisServer) -> None:
    demand = Demand("ann", "x", None, None, 1)
    counts = SharedCounts(RedisCache(redis.url, prefix="ending:"))
    counts.give_back((await counts.take(demand)).lease)
    await counts.aclose()  # at once
    after = SharedCounts(RedisCache(redis.url, prefix="ending:"))
    assert (await after.take(demand)).exceeded is None
    await after.aclose()


async def test_redis_that_is_away_is_an_error_and_leaves_no_slot_behind() -> None:
    counts = SharedCounts(RedisCache("redis://127.0.0.1:1/0"))
    with pytest.raises(BackendError):
        await counts.take(Demand("ann", "x", None, None, 1))
    await until(lambda: not counts._held)  # pyright: ignore[reportPrivateUsage]
    await counts.aclose()


@pytest.mark.redis
async def test_a_renewal_that_comes_between_takes_no_slot_away(redis: RedisServer) -> None:
    store = RedisCache(redis.url, prefix="between:")
    counts = SharedCounts(store)
    usual, first = store.run, True

    async def run(script: str, keys: Sequence[str], values: Sequence[str | float]) -> Any:
        """Slots are renewed just before the first one is taken."""
        nonlocal first
        if first:
            first = False
            await counts.renew()
        return await usual(script, keys, values)

    store.run = run
    try:
        for _ in range(3):
            taken = await counts.take(Demand("ann", "x", None, None, 1))
            assert taken.exceeded is None
            counts.give_back(taken.lease)
            await until(lambda: not len(counts._giving_back))  # pyright: ignore[reportPrivateUsage]
    finally:
        await counts.aclose()


@pytest.mark.redis
async def test_many_at_once_are_counted_all_the_same(redis: RedisServer) -> None:
    counts = SharedCounts(RedisCache(redis.url, prefix="crowd:", timeout_s=10.0))
    demand = Demand("ann", "x", None, PerDay("calls", 5))
    taken = await asyncio.gather(*(counts.take(demand) for _ in range(500)))
    assert sum(one.exceeded is None for one in taken) == 5
    await counts.aclose()
