"""What of the statistics is read again, and how many rows stay, on every database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import event, func, insert, select, text

from armory.accounts.plans import PlanUsage
from armory.accounts.usage.statements import UsageStatements
from armory.accounts.usage.statistics import UsageStatistics
from armory.accounts.usage.store import DELETED_AT_ONCE, UsageStore
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.tables import query_months, server_days, tool_days, user_tools

pytestmark = pytest.mark.anyio


async def test_statistics_that_are_read_already_are_not_summed_up_again(stores: Any) -> None:
    database = Database(stores.url)
    await database.open()
    try:
        usage, store = UsageStatistics(database), UsageStore(database)
        for tool in ("git__log", "git__show"):
            usage.called("ann", tool, ok=True, latency_ms=5.0)
        await usage.flush()
        assert set(await store.changed_tools(0)) == {"git__log", "git__show"}
        assert await store.changed_tools(0) == {}
        usage.called("bob", "git__log", ok=False, latency_ms=5.0)
        await usage.flush()
        found = await store.changed_tools(0)
        assert {tool: (it.uses, it.successes) for tool, it in found.items()} == {"git__log": (2, 1)}
        assert set(await store.changed_tools(0, anew=True)) == {"git__log", "git__show"}
    finally:
        await database.close()


@pytest.mark.parametrize("names", [40, 120])
async def test_names_without_end_leave_no_rows_without_end(stores: Any, names: int) -> None:
    """One user calls every name that an upstream invents, and many users call one each."""
    now_ms = 1_800_000_000_000

    def later() -> int:
        nonlocal now_ms
        now_ms += 1
        return now_ms

    database = Database(stores.url)
    await database.open()

    async def stored(table: Any) -> int:
        async with database.read() as connection:
            counting = select(func.count()).select_from(table)
            return int((await connection.execute(counting)).scalar_one())

    try:
        store = UsageStore(database, rows_kept=30, days_kept=25, tools_of_user=8)
        usage = UsageStatistics(database, now_ms=later, tools_kept=20, tools_of_user=8)
        await usage.refresh()
        await usage.recall("ann")
        for n in range(names):
            usage.called("ann", f"up__made_up_{n}", ok=True, latency_ms=5.0)
            usage.called(f"api_key:{n}", "up__search", ok=True, latency_ms=5.0)
            if n % 10 == 9:
                await usage.flush()
                await usage.refresh()
                assert len(usage.tools()) <= 20
                assert len(await usage.of_user("ann")) <= 8
        await store.prune(0)
        assert (await stored(user_tools), await stored(tool_days)) == (30, 25)
        of_ann = await store.of_user("ann")
        assert [*of_ann] == [f"up__made_up_{n}" for n in range(names - 8, names)]
        assert of_ann == await usage.of_user("ann")
        assert {"up__search", f"up__made_up_{names - 1}"} <= usage.tools().keys()
    finally:
        await database.close()


async def test_rows_that_a_flush_has_locked_are_not_waited_for(stores: Any) -> None:
    """Each could wait for the other: they take rows in different orders."""
    database = Database(stores.url)
    await database.open()
    row = {"uses": 1, "successes": 1, "updated_at_ms": 0}
    users = [
        {**row, "user_id": f"user{n}", "tool": "git__log", "last_used_at_ms": n} for n in range(40)
    ]
    try:
        async with database.write() as connection:
            await connection.execute(insert(user_tools), users)
        store = UsageStore(database, rows_kept=30)
        if database.dialect == "sqlite":  # one writes at a time
            await store.prune(0)
        else:
            async with database.write() as connection, asyncio.timeout(20):
                locking = select(user_tools).where(user_tools.c.user_id == "user3")
                await connection.execute(locking.with_for_update())
                await store.prune(0)
        async with database.read() as connection:
            left = set((await connection.execute(select(user_tools.c.user_id))).scalars())
        locked = set() if database.dialect == "sqlite" else {"user3"}
        assert left == {f"user{n}" for n in range(10, 40)} | locked
    finally:
        await database.close()


async def test_flushes_lock_rows_in_the_order_of_their_keys(stores: Any) -> None:
    database = Database(stores.url)
    await database.open()
    keys = [("up__B", 1), ("up__a", 1), ("up__a", 2), ("up_b", 1)]
    row = {"uses": 0, "successes": 0, "latency": b"", "last_used_at_ms": 0, "updated_at_ms": 0}
    try:
        async with database.write() as connection:
            if database.dialect == "postgresql":  # as in a database that is not made with C
                kind = 'ALTER TABLE tool_days ALTER COLUMN tool TYPE text COLLATE "en-x-icu"'
                await connection.execute(text(kind))
            rows = [{**row, "tool": tool, "day": day} for tool, day in keys]
            await connection.execute(insert(tool_days), rows)
            locking = UsageStatements(database).lock_tool_days
            locked = (await connection.execute(locking, {"keys": keys})).all()
        assert [(one.tool, one.day) for one in locked] == sorted(keys)
    finally:
        await database.close()


async def test_many_rows_are_deleted_some_at_a_time(stores: Any) -> None:
    database = Database(stores.url)
    await database.open()
    row = {"up_ms": 1, "observed_ms": 1, "updated_at_ms": 0}
    days = [{**row, "server": f"s{n}", "day": 20_200_101} for n in range(2 * DELETED_AT_ONCE + 5)]
    try:
        async with database.write() as connection:
            await connection.execute(insert(server_days), days)
        deleted: list[int] = []

        def executed(_c: Any, cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith("DELETE FROM server_days"):
                deleted.append(cursor.rowcount)

        engine = database._engine  # pyright: ignore[reportPrivateUsage]
        event.listen(engine, "after_cursor_execute", executed)
        await UsageStore(database).prune(20_200_102)
        assert deleted == [DELETED_AT_ONCE, DELETED_AT_ONCE, 5]
        async with database.read() as connection:
            counting = select(func.count()).select_from(server_days)
            assert (await connection.execute(counting)).scalar_one() == 0
    finally:
        await database.close()


async def test_counts_of_past_months_do_not_stay(stores: Any) -> None:
    database = Database(stores.url)
    await database.open()
    try:
        feed = ChangeFeed(database, MemoryCache())
        usage = PlanUsage(database, feed, plans={"free": None}, default_plan="free")
        rows = [{"user_id": "ann", "month": 202000 + month, "queries": 5} for month in range(1, 13)]
        async with database.write() as connection:
            await connection.execute(insert(query_months), rows)
        await usage.spend("ann")
        await usage.flush()
        await usage.prune()
        async with database.read() as connection:
            left = (await connection.execute(select(query_months.c.month))).scalars().all()
        assert len(left) == 1
        assert left[0] > 202012
    finally:
        await database.close()
