"""What was counted is stored once, also where the gateway ends while it is being stored."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from armory.accounts import query_log, service
from armory.accounts.query_log import QueryRecord
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.cache import MemoryCache
from armory.storage.database import Database, now_ms
from armory.tasks import start, stop


@pytest.mark.anyio
async def test_a_flush_that_is_cancelled_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "armory.db"
    settings = AccountSettings(enabled=True, plans={"free": 100})
    accounts = Accounts(Database(f"sqlite:///{file}"), MemoryCache(), settings)

    async def count() -> None:
        await accounts.plans.spend("ann")
        accounts.usage.called("ann", "mail__send", ok=True, latency_ms=1.0)
        accounts.query_log.add(QueryRecord("q", "ann", "v1", "mail", (), 1, 0.5, 1.0))

    async with asyncio.timeout(30):
        await accounts.open()
        await count()
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            flushing = asyncio.create_task(accounts.flush())
            await asyncio.sleep(0)
            flushing.cancel()
            await asyncio.wait((flushing,))
            await count()
            other.execute("COMMIT")
        await accounts.close()
    with closing(sqlite3.connect(file)) as found:
        for what in ("sum(uses) FROM tool_days", "queries FROM query_months"):
            assert found.execute(f"SELECT {what}").fetchall() == [(2,)]
        assert found.execute("SELECT count(*) FROM query_log").fetchone() == (2,)


@pytest.mark.anyio
async def test_what_did_not_fit_meanwhile_is_told_once_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_log, "_QUEUE", 2)
    settings = AccountSettings(enabled=True)
    accounts = Accounts(Database(f"sqlite:///{tmp_path / 'a.db'}"), MemoryCache(), settings)
    await accounts.open()
    with capture_logs() as logs:
        for name in "abcde":
            accounts.query_log.add(QueryRecord(name, "ann", "v1", "mail", (), 1, 0.5, 1.0))
        await accounts.flush()
        await accounts.close()
    told = [log for log in logs if log["event"] == "statistics_lost"]
    assert [(log["calls"], log["queries_logged"]) for log in told] == [(0, 3)]


@pytest.mark.anyio
async def test_what_is_past_its_retention_is_deleted_soon_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FLUSH_S", 0.01)
    settings = AccountSettings(enabled=True, retention_days=1)
    accounts = Accounts(Database(f"sqlite:///{tmp_path / 'a.db'}"), MemoryCache(), settings)
    await accounts.open()
    try:
        for name, at_ms in (("old", 1), ("new", now_ms())):
            accounts.query_log.add(
                QueryRecord(name, "ann", "v1", "mail", (), 1, 0.5, 1.0, None, at_ms)
            )
        await accounts.flush()
        running = start(accounts.run(), "accounts")
        async with asyncio.timeout(30):
            while len(left := await accounts.query_log.recent()) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await stop(running)
        assert [record.query_id for record in left] == ["new"]
    finally:
        await accounts.close()


@pytest.mark.anyio
async def test_what_a_deleted_user_did_is_not_told_of_the_next_one_of_that_name(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    accounts = Accounts(Database(url), MemoryCache(), AccountSettings(enabled=True))
    await accounts.open()
    try:
        for user in ("ann", "bob"):
            await accounts.users.create(user)
            accounts.usage.called(user, "mail__send", ok=True, latency_ms=1.0)
        await accounts.flush()
        await accounts.usage.refresh()
        for user in ("ann", "bob"):
            accounts.usage.called(user, "mail__send", ok=True, latency_ms=1.0)
        await accounts.users.delete("ann")
        await accounts.users.create("ann")
        await accounts.flush()
        await accounts.usage.refresh()
        assert await accounts.usage.of_user("ann") == {}
        assert (await accounts.usage.of_user("bob"))["mail__send"].uses == 2
    finally:
        await accounts.close()


@pytest.mark.anyio
async def test_nor_is_what_is_stored_before_another_replica_hears_of_the_deletion(
    tmp_path: Path,
) -> None:
    url, settings = f"sqlite:///{tmp_path / 'a.db'}", AccountSettings(enabled=True)
    here, there = (Accounts(Database(url), MemoryCache(), settings) for _ in range(2))
    await there.open()
    await here.open()
    try:
        await here.feed.poll()
        await there.users.create("ann")
        for user in ("ann", "bob"):
            await here.plans.spend(user)
            here.usage.called(user, "mail__send", ok=True, latency_ms=1.0)
            here.query_log.add(QueryRecord("q", user, "v1", "a divorce", (), 1, 0.5, 1.0))
        await there.users.delete("ann")
        await there.users.create("ann")
        await here.flush()
        assert [record.user for record in await there.query_log.recent()] == ["bob"]
        assert await there.usage.of_user("ann") == {}
        assert (await there.plans.standing("ann")).current_month_usage == 0
    finally:
        await here.close()
        await there.close()
