"""What is remembered of use, on every storage and over replicas."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from armory.accounts.users import Users
from armory.feedback.store import StoredUse, StoredUses
from armory.storage.changes import LEARNED_USES
from armory.storage.tables import learned_uses

pytestmark = pytest.mark.anyio


def use(tool: str, user: str, query: str, at_ms: int) -> StoredUse:
    vector = np.array([0.6, 0.8, 0, 0], np.float32)
    return StoredUse(tool, user, query, query, "model", vector, at_ms)


async def test_stored_read_and_forgotten_by_all(processes: Any) -> None:
    here, there = await processes.open(), await processes.open()
    mine, theirs = StoredUses(here.database, here.feed), StoredUses(there.database, there.feed)
    heard = asyncio.Event()

    async def hear(_: str) -> None:
        heard.set()

    there.feed.subscribe(LEARNED_USES, hear)
    await mine.add([use("a__x", "ann", "first \U0001f600", 2), use("a__x", "bob", "second", 1)])
    found, seen = await theirs.since()
    assert [(u.user, u.query, u.at_ms) for u in found] == [
        ("bob", "second", 1),
        ("ann", "first \U0001f600", 2),
    ]
    np.testing.assert_allclose(found[0].vector, [0.6, 0.8, 0, 0], atol=1e-3)

    await mine.add([use("a__x", "bob", "second", 9), use("a__y", "bob", "third", 3)])
    again, _ = await theirs.since(seen)
    assert {(u.tool, u.at_ms) for u in again} >= {("a__x", 9), ("a__y", 3)}
    assert await theirs.count() == 3

    assert await mine.forget(tool="a__y", user="ann") == 0
    assert not heard.is_set()
    assert await mine.forget(tool="a__x", user="bob") == 1
    async with asyncio.timeout(10):
        await heard.wait()
    assert [u.tool for u in (await theirs.since())[0]] == ["a__x", "a__y"]
    assert await mine.forget() == 2
    assert await theirs.count() == 0


async def test_what_is_learned_after_the_clock_was_set_back_is_read(processes: Any) -> None:
    here, there = await processes.open(), await processes.open()
    mine, theirs = StoredUses(here.database, here.feed), StoredUses(there.database, there.feed)
    await mine.add([use("a__x", "ann", "one", 1)])
    ahead = learned_uses.c.updated_at_ms + 3_600_000
    async with here.database.write() as connection:
        await connection.execute(update(learned_uses).values(updated_at_ms=ahead))
    _, seen = await theirs.since()
    await mine.add([use("a__y", "ann", "two", 2)])
    found, _ = await theirs.since(seen)
    assert [u.tool for u in found] == ["a__x", "a__y"]


async def test_who_is_deleted_has_taught_nothing(processes: Any) -> None:
    here = await processes.open()
    users = Users(here.database, here.feed, default_plan="free")
    uses = StoredUses(here.database, here.feed)
    await users.create("ann")
    await uses.add([use("a__x", "ann", "one", 1), use("a__x", "bob", "two", 2)])
    assert await users.delete("ann")
    assert [u.user for u in (await uses.since())[0]] == ["bob"]


async def test_old_and_surplus_uses_are_pruned(processes: Any) -> None:
    here = await processes.open()
    uses = StoredUses(here.database, here.feed, most=2)
    now = 2_000_000_000_000
    await uses.add([use(f"a__{i}", "ann", "one", now + i) for i in range(5)])
    await uses.add([use("a__old", "ann", "one", 1)])
    assert [u.tool for u in (await uses.since())[0]] == ["a__3", "a__4"]
    await uses.prune(30)
    every = StoredUses(here.database, here.feed)
    assert [u.tool for u in (await every.since())[0]] == ["a__3", "a__4"]
    assert await uses.count() == 2


async def test_one_user_leaves_room_for_what_others_have_taught(processes: Any) -> None:
    here = await processes.open()
    uses = StoredUses(here.database, here.feed, most=4, of_one=2)
    now = 2_000_000_000_000
    await uses.add([use("a__x", "quiet", "one", now), use("a__y", "quiet", "two", now)])
    await uses.add([use("a__x", "loud", f"{i}", now + 1 + i) for i in range(6)])

    async def kept() -> list[tuple[str, str]]:
        return [(u.user, u.query) for u in (await uses.since())[0]]

    expected = [("quiet", "one"), ("quiet", "two"), ("loud", "4"), ("loud", "5")]
    assert sorted(await kept()) == sorted(expected)
    assert await uses.prune(30) == 4
    assert sorted(await kept()) == sorted(expected)
    assert await uses.count() == 4
