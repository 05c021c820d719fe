"""Connections from an event loop: whatever ends a transaction, it is ended and given back."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from armory.storage.database import Database
from tests.given_up import given_up

pytestmark = pytest.mark.anyio
INSERT = text("INSERT INTO users (id, is_active, plan, created_at_ms) VALUES (:id, 1, 'free', 0)")
COUNT = text("SELECT count(*) FROM users")


async def test_a_transaction_that_fails_is_rolled_back(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'armory.db'}")
    await database.open()

    async def fail() -> None:
        async with database.write() as connection:
            await connection.execute(INSERT, [{"id": "a"}, {"id": "b"}])
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await fail()
    async with database.read() as connection:
        assert (await connection.execute(COUNT)).scalar_one() == 0
    await database.close()


async def test_one_that_is_cancelled_anywhere_leaves_nothing_open(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'armory.db'}", pool_size=1)
    await database.open()

    async def add(user: str) -> None:
        async with database.write() as connection:
            await connection.execute(INSERT, {"id": user})

    whole = 0
    for turns in range(200):
        task = asyncio.create_task(add(f"user-{turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await asyncio.wait_for(task, 10)
            whole += 1
        except asyncio.CancelledError:
            pass
        async with database.write() as connection:  # fails when a writer was left behind
            found = await connection.execute(COUNT)
            assert found.scalar_one() >= whole
    async with asyncio.timeout(10):
        await database.close()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is freed but with its last reference: in a gateway the collector comes seldom."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
async def test_others_write_at_once_wherever_one_that_reads_and_writes_is_given_up(
    tmp_path: Path,
) -> None:
    file = tmp_path / "armory.db"
    database = Database(f"sqlite:///{file}")
    await database.open()

    async def add(user: str) -> None:
        async with database.write() as connection:
            await connection.execute(COUNT)
            await connection.execute(INSERT, {"id": user})

    other = sqlite3.connect(file, timeout=0, isolation_level=None)
    async with asyncio.timeout(60):
        await add("first")
        at, came = 0, True
        while came:
            at += 1
            came = await given_up(add(f"user-{at}"), at)
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        assert at > 5
        await database.close()
    other.close()
