"""Plans, usage statistics and the query log on every storage."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from armory.accounts.plans import PlanUsage, month_of
from armory.accounts.query_log import QueryRecord
from armory.accounts.service import Accounts
from armory.domain.principal import Principal
from armory.errors import RateLimited
from armory.testing.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_plans_count_over_replicas_and_refuse_when_used_up(replicas: Any) -> None:
    first, second = await replicas.start(), await replicas.start()
    ann = Principal("ann", "ann")
    standing = await first.spend(ann)
    assert standing is not None
    assert (standing.plan, standing.queries_limit, standing.remaining) == ("free", 3, 2)
    await first.spend(ann)
    await first.flush()
    third = await second.spend(ann)
    assert third is not None
    assert third.remaining == 0
    with pytest.raises(RateLimited) as refused:
        await second.spend(ann)
    assert refused.value.retry_after_s is not None
    await second.flush()
    await first.users.create("ann", "team")  # a better plan counts at once
    assert await second.feed.wait_trusted(5)

    async def unlimited() -> bool:
        return (await second.plans.standing("ann")).queries_limit is None

    await eventually(unlimited)
    assert (await second.plans.standing("ann")).current_month_usage == 3
    assert await first.spend(Principal("service")) is None


async def test_a_plan_that_is_configured_no_more_has_the_default_ones_limit(replicas: Any) -> None:
    accounts = await replicas.start()
    used = PlanUsage(accounts.database, accounts.feed, plans={"free": 3}, default_plan="free")
    await accounts.users.create("ann", "team")
    standing = await used.standing("ann")
    assert (standing.plan, standing.queries_limit) == ("team", 3)


def test_a_month_ends_when_the_next_begins() -> None:
    assert month_of(1_798_761_599.0) == (202612, 1_798_761_600)
    assert month_of(1_798_761_600.0)[0] == 202701


async def test_statistics_of_replicas_add_up_and_survive(replicas: Any) -> None:
    first, second = await replicas.start(), await replicas.start()

    async def work(accounts: Accounts, offset: int) -> None:
        for number in range(500):
            latency = float(offset + number)
            accounts.usage.called("ann", "git__log", ok=number % 10 != 0, latency_ms=latency)
            if number % 100 == 0:
                await accounts.usage.flush()
        accounts.usage.called("bob", "git__show", ok=True, latency_ms=5.0)
        await accounts.usage.flush()

    await asyncio.gather(work(first, 0), work(second, 500))
    await first.usage.refresh()
    found = first.usage.tool("git__log")
    assert found is not None
    assert (found.uses, found.successes) == (1_000, 900)
    assert found.p50_ms == pytest.approx(500, rel=0.02)
    assert found.p99_ms == pytest.approx(990, rel=0.02)
    assert (await first.usage.of_user("ann"))["git__log"].uses == 1_000
    third = await replicas.start()
    assert third.usage.tool("git__log") == found
    shown = third.usage.tool("git__show")
    assert shown is not None
    assert shown.uses == 2


async def test_ranking_reads_popularity_history_and_performance(replicas: Any) -> None:
    accounts = await replicas.start()
    for _ in range(4):
        accounts.usage.called("ann", "a__often", ok=True, latency_ms=1_000)
    accounts.usage.called("bob", "a__once", ok=False, latency_ms=10)
    accounts.usage.observed({"a": True}, 3_000)
    accounts.usage.observed({"a": False}, 1_000)
    await accounts.usage.flush()
    await accounts.usage.refresh()
    await accounts.usage.recall("ann")
    found = accounts.usage.statistics("ann", ["a__often", "a__once", "a__never"])
    assert found.popularity.tolist() == pytest.approx([1.0, 0.75, 0.0])
    assert found.history.tolist() == pytest.approx([1.0, 0.0, 0.0])
    assert found.performance.tolist() == pytest.approx([(0.8 + 0.75) / 2, 0.499, 0.5], rel=0.01)
    assert accounts.usage.statistics(None, ["a__often"]).history.tolist() == [0.0]


async def test_long_queries_are_redacted_beside_the_event_loop(
    replicas: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = await replicas.start()
    log, threads = accounts.query_log, set[int]()
    redacted = log.redacted

    def seen(text: str) -> str:
        threads.add(threading.get_ident())
        return redacted(text)

    monkeypatch.setattr(log, "redacted", seen)
    log.add(QueryRecord("q", "ann", "v1", "bearer " + "x" * 8_000, (), 9, 0.5, 1.0))
    await log.flush()
    assert [record.query for record in await log.recent()] == ["[redacted]"]
    assert threads
    assert threading.get_ident() not in threads


async def test_the_query_log_redacts_bounds_and_forgets(replicas: Any, stores: Any) -> None:
    accounts = await replicas.start()
    _, key = await accounts.keys.create("k")
    jwt = f"eyJ{'a' * 20}.eyJ{'b' * 20}.{'c' * 20}"
    secrets = [f"{kind}-{'d' * 20}" for kind in ("sk", "ghp", "gho", "xoxb", "xoxp", "glpat")]
    secrets += [jwt, "BEARER " + "e" * 20]
    for text in (f"use {key} please", "my pin is 1234", "deploy\x00 \ud800 it", " ".join(secrets)):
        accounts.query_log.add(QueryRecord("q", "ann", "v1", text, ("a__b",), 9, 0.5, 1.0))
    await accounts.flush()
    stored = [record.query for record in await accounts.query_log.recent()]
    gone = " ".join(["[redacted]"] * len(secrets))
    assert stored == [gone, "deploy ? it", "my pin is [redacted]", "use [redacted] please"]
    for _ in range(10_050):
        accounts.query_log.add(QueryRecord("q", None, "v1", "x", (), 0, 0.0, 0.0))
    assert len(accounts.query_log) == 10_000
    assert accounts.query_log.dropped == 50
    old = QueryRecord("old", "eve", "v1", "x", (), 0, 0.0, 0.0, at_ms=1)
    await accounts.query_log.flush()
    accounts.query_log.add(old)
    await accounts.query_log.flush()
    assert await accounts.query_log.recent(user="eve")
    assert await accounts.query_log.prune() == 1
    assert not await accounts.query_log.recent(user="eve")
