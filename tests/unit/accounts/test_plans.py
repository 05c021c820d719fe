"""What was counted of whom."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from armory.accounts import plans
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.cache import MemoryCache
from armory.storage.database import Database
from armory.testing.waiting import until


@pytest.mark.anyio
async def test_queries_of_a_deleted_user_do_not_count_for_the_next_one_of_that_name(
    tmp_path: Path,
) -> None:
    settings = AccountSettings(enabled=True, plans={"free": 10})
    accounts = Accounts(Database(f"sqlite:///{tmp_path / 'a.db'}"), MemoryCache(), settings)
    await accounts.open()
    try:
        for user in ("ann", "bob"):
            await accounts.users.create(user)
            await accounts.plans.spend(user)
        await accounts.users.delete("ann")
        await accounts.users.create("ann")
        await accounts.flush()
        for user, used in (("ann", 0), ("bob", 1)):
            assert (await accounts.plans.standing(user)).current_month_usage == used
    finally:
        await accounts.close()


@pytest.mark.anyio
async def test_what_other_replicas_count_is_read_also_where_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AccountSettings(enabled=True, plans={"free": 10})
    one, other = (
        Accounts(Database(f"sqlite:///{tmp_path / 'a.db'}"), MemoryCache(), settings)
        for _ in range(2)
    )
    await one.open()
    await other.open()
    try:
        await one.users.create("ann")
        assert (await one.plans.standing("ann")).current_month_usage == 0
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now - 60)
        monkeypatch.setattr(plans, "TTL_S", 0.0)
        await other.plans.spend("ann")
        await other.flush()
        assert (await one.plans.standing("ann")).current_month_usage == 1
    finally:
        await one.close()
        await other.close()


@pytest.mark.anyio
async def test_what_other_replicas_count_is_read_every_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AccountSettings(enabled=True, plans={"free": 10})
    clock = SimpleNamespace(time=time.time, monotonic=lambda: 1_000.0)
    monkeypatch.setattr(plans, "time", clock)
    one, other = (
        Accounts(Database(f"sqlite:///{tmp_path / 'a.db'}"), MemoryCache(), settings)
        for _ in range(2)
    )
    await one.open()
    await other.open()
    try:
        await one.users.create("ann")
        assert (await one.plans.standing("ann")).current_month_usage == 0
        await other.plans.spend("ann")
        await other.flush()
        clock.monotonic = lambda: 1_009.9
        assert (await one.plans.standing("ann")).current_month_usage == 0
        clock.monotonic = lambda: 1_010.0
        assert (await one.plans.standing("ann")).current_month_usage == 1
    finally:
        await one.close()
        await other.close()


@pytest.mark.anyio
@pytest.mark.parametrize("what", ["plans", "usage"])
async def test_what_is_being_stored_of_a_deleted_user_is_not_stored(
    tmp_path: Path, what: str
) -> None:
    file = tmp_path / "a.db"
    settings = AccountSettings(enabled=True, plans={"free": 10})
    accounts = Accounts(Database(f"sqlite:///{file}"), MemoryCache(), settings)
    await accounts.open()
    part = accounts.plans if what == "plans" else accounts.usage
    other = sqlite3.connect(file, isolation_level=None)
    try:
        for user in ("ann", "bob"):
            await accounts.plans.spend(user)
            accounts.usage.called(user, "t", ok=True, latency_ms=1)
        other.execute("BEGIN IMMEDIATE")
        async with asyncio.timeout(20):
            storing = asyncio.create_task(part.flush())
            await until(lambda: not part.waiting)
            part.forget("ann")
            other.execute("COMMIT")
            await storing
        for user, used in (("ann", 0), ("bob", 1)):
            if what == "plans":
                assert (await accounts.plans.standing(user)).current_month_usage == used
            else:
                assert len(await accounts.usage.of_user(user)) == used
    finally:
        other.close()
        await accounts.close()
