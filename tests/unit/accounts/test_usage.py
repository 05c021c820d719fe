"""Usage statistics as time goes by: what is older than the window counts no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import update

from armory.accounts.usage.statistics import UsageStatistics
from armory.storage.database import Database
from armory.storage.tables import tool_days, user_tools

pytestmark = pytest.mark.anyio
DAY_MS = 86_400_000
TOOLS = ["mail__send", "mail__read", "mail__draft"]
OFFERED = [*TOOLS, *(f"mail__{number}" for number in range(7))]


class Clock:
    """Milliseconds since 1970, noon of a day to begin with."""

    def __init__(self) -> None:
        self.now = 20_000 * DAY_MS + DAY_MS // 2

    def __call__(self) -> int:
        return self.now


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'armory.db'}")
    await opened.open()
    yield opened
    await opened.close()


def usage(database: Database, clock: Clock) -> UsageStatistics:
    return UsageStatistics(database, tools=lambda: OFFERED, now_ms=clock)


async def count(usage: UsageStatistics, tool: str, *, ok: bool = True, uses: int = 1) -> None:
    for _ in range(uses):
        usage.called("ann", tool, ok=ok, latency_ms=5)
    await usage.flush()
    await usage.refresh()


async def test_days_leave_the_window_while_it_runs(database: Database) -> None:
    clock = Clock()
    running = usage(database, clock)
    await count(running, "mail__send", uses=100)
    await count(running, "mail__read", ok=False, uses=3)
    clock.now += 29 * DAY_MS
    await count(running, "mail__send", uses=2)
    found = running.tool("mail__send")
    assert found is not None
    assert found.uses == 102
    clock.now += DAY_MS
    await running.refresh()  # nothing was called meanwhile
    found = running.tool("mail__send")
    assert found is not None
    assert found.uses == 2
    assert running.tool("mail__read") is None
    assert running.statistics(None, TOOLS).performance.tolist()[1] == 0.5
    clock.now += 200 * DAY_MS
    await running.refresh()
    assert running.tools() == {}
    assert running.statistics(None, TOOLS).popularity.tolist() == [0.0, 0.0, 0.0]
    assert (await running.of_user("ann"))["mail__send"].uses == 102  # kept for good


async def test_what_ranking_reads_is_what_the_calls_were(database: Database) -> None:
    clock = Clock()
    running = usage(database, clock)  # of ten tools
    for latency_ms in [100] * 98 + [2_500] * 2:
        running.called("ann", "mail__send", ok=True, latency_ms=latency_ms)
    for ok in (True, False, False, False):
        running.called("bob", "mail__read", ok=ok, latency_ms=100)
    running.observed({"mail": True}, 900)
    running.observed({"mail": False}, 100)
    await running.flush()
    await running.refresh()
    for user in ("ann", "bob"):
        await running.recall(user)
    send = running.tool("mail__send")
    assert send is not None
    assert (send.p50_ms, send.p99_ms) == pytest.approx((100, 2_500), rel=0.011)
    found = running.statistics("ann", TOOLS)
    # no other tool is used as much as the first, eight are not used as much as the second
    assert found.popularity.tolist() == pytest.approx([1.0, 8 / 9 + 0.1 * 0.25, 0.0])
    assert found.history.tolist() == [1.0, 0.0, 0.0]
    assert running.statistics("bob", TOOLS).history.tolist() == pytest.approx([0.0, 0.3, 0.0])
    assert running.statistics(None, TOOLS).history.tolist() == [0.0, 0.0, 0.0]
    assert found.performance.tolist() == pytest.approx(
        [(0.5 + 0.9) / 2, (0.98 + 0.25 * 0.9) / 2, 0.5], abs=0.005
    )
    clock.now += 8 * DAY_MS
    assert running.statistics("bob", TOOLS).history[1] == pytest.approx(0.25)


async def test_popularity_is_among_the_tools_that_there_are(database: Database) -> None:
    offered = {f"old__{number}": None for number in range(5)}
    running = UsageStatistics(database, tools=lambda: offered, now_ms=Clock())
    for uses, tool in enumerate(offered):
        await count(running, tool, uses=10 + uses)
    found = running.statistics(None, ["old__4", "old__0"])
    assert found.popularity.tolist() == pytest.approx([1.0, 0.1])
    # the server gets another key, and each of its tools another name
    offered = {f"new__{number}": None for number in range(5)}
    await count(running, "new__1")
    await count(running, "new__2", uses=2)
    found = running.statistics(None, ["new__2", "new__1", "new__0"])
    assert found.popularity.tolist() == pytest.approx([1.0, 0.85, 0.0])
    offered = {"new__1": None, "new__2": None, "new__3": None}
    await running.refresh()  # nothing was called meanwhile
    assert running.statistics(None, ["new__1"]).popularity.tolist() == pytest.approx([0.6])


async def test_a_process_that_ran_on_agrees_with_one_that_starts(database: Database) -> None:
    clock = Clock()
    running = usage(database, clock)
    for day, tool in enumerate(TOOLS * 5):
        await count(running, tool, ok=day % 4 != 0, uses=day + 1)
        clock.now += 11 * DAY_MS  # each tool is used again when all it had has left
        await running.refresh()
        started = usage(database, clock)
        await started.refresh()
        assert running.tools() == started.tools()
        here, there = running.statistics("ann", TOOLS), started.statistics("ann", TOOLS)
        assert here.popularity.tolist() == there.popularity.tolist()
        assert here.performance.tolist() == there.performance.tolist()


async def test_what_is_counted_after_the_clock_was_set_back_counts(database: Database) -> None:
    here, elsewhere = usage(database, Clock()), usage(database, Clock())
    await count(here, "mail__read")
    await here.recall("ann")
    hour_ahead = 3_600_000
    async with database.write() as connection:
        for table in (tool_days, user_tools):
            later = table.c.updated_at_ms + hour_ahead
            await connection.execute(update(table).values(updated_at_ms=later))
    await here.refresh()
    await count(elsewhere, "mail__send", uses=2)
    await here.refresh()
    assert set(here.tools()) == {"mail__read", "mail__send"}
    assert here.statistics("ann", TOOLS).history.tolist()[0] == 1.0


async def test_of_many_users_those_that_asked_last_are_in_memory(database: Database) -> None:
    running = UsageStatistics(database, tools=lambda: OFFERED, now_ms=Clock(), users_kept=2)

    def history(user: str) -> float:
        return float(running.statistics(user, TOOLS).history[0])

    for user in ("ann", "bob", "cid"):
        running.called(user, "mail__send", ok=True, latency_ms=5)
    await running.flush()
    await running.refresh()
    for user in ("ann", "bob", "ann", "cid"):
        await running.recall(user)
        assert history(user) == 1.0
    assert [history(user) for user in ("ann", "bob", "cid")] == [1.0, 0.0, 1.0]
    await running.recall("bob")  # it was stored
    assert history("bob") == 1.0
    running.called("bob", "mail__send", ok=False, latency_ms=5)
    await running.flush()
    await running.refresh()
    assert history("bob") == pytest.approx(0.6)
    assert (await running.of_user("ann"))["mail__send"].uses == 1


async def test_a_database_that_is_away_holds_up_no_search() -> None:
    away = Database("postgresql://nobody@127.0.0.1:9/none")
    try:
        running = usage(away, Clock())
        for _ in range(2):
            await running.recall("ann")
        assert running.statistics("ann", TOOLS).history.tolist() == [0.0, 0.0, 0.0]
    finally:
        await away.close()
