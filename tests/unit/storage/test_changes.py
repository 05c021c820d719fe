"""The change feed of an SQLite file: a commit is heard, silence costs no transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event, insert, select, text
from sqlalchemy.sql.functions import Function

from armory.storage.cache import MemoryCache
from armory.storage.changes import QUIET_S, ChangeFeed
from armory.storage.database import Database
from armory.storage.tables import changes
from tests.garbage import none_collected

pytestmark = pytest.mark.anyio


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """A database as two processes have it open: this one, and one elsewhere."""
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    here, elsewhere = Database(url), Database(url)
    await here.open()
    await elsewhere.open()
    yield here, elsewhere
    await elsewhere.close()
    await here.close()


async def test_a_quiet_database_is_not_asked_and_a_commit_is_heard_at_once(
    two: tuple[Database, Database],
) -> None:
    here, elsewhere = two
    now = 1_000.0
    feed = ChangeFeed(here, MemoryCache(), clock=lambda: now)
    heard: list[str] = []
    asked: list[Any] = []

    async def hear(value: str) -> None:
        heard.append(value)

    feed.subscribe("user", hear)
    event.listen(here._engine, "begin", asked.append)  # pyright: ignore[reportPrivateUsage]
    await feed.poll()
    first = len(asked)
    assert first == 1
    for _ in range(3):
        now += 0.25
        await feed.poll()
    assert feed.trusted
    assert len(asked) == first

    async with ChangeFeed(elsewhere, MemoryCache()).transaction() as change:
        change.changed("user", "ann")
    now += 0.25
    await feed.poll()
    assert heard == ["ann"]

    now += 0.25
    await feed.poll()
    asked.clear()
    now += QUIET_S
    await feed.poll()
    assert len(asked) == 1  # whatever the count says, a whole look from time to time


async def test_changes_are_heard_after_the_clock_was_set_back(
    two: tuple[Database, Database],
) -> None:
    here, elsewhere = two
    feed = ChangeFeed(here, MemoryCache())
    heard: list[str] = []

    async def hear(value: str) -> None:
        heard.append(value)

    feed.subscribe("user", hear)
    await feed.poll()
    ahead = {"at_ms": elsewhere.now_ms + 3_600_000, "topic": "user", "value": "bob"}
    async with elsewhere.write() as connection:  # as long as the clock was an hour ahead
        await connection.execute(insert(changes).values(**ahead))
    await feed.poll()
    assert heard == ["bob"]
    async with ChangeFeed(elsewhere, MemoryCache()).transaction() as change:
        change.changed("user", "ann")
    await feed.poll()
    assert heard == ["bob", "ann"]


async def test_a_number_that_comes_again_after_a_restore_is_heard(
    two: tuple[Database, Database],
) -> None:
    here, elsewhere = two
    heard: list[str] = []

    async def hear(value: str) -> None:
        heard.append(value)

    async def changed(value: str) -> None:
        async with ChangeFeed(elsewhere, MemoryCache()).transaction() as change:
            change.changed("user", value)

    feed = ChangeFeed(here, MemoryCache())
    feed.subscribe("user", hear)
    await feed.poll()
    await changed("ann")
    await feed.poll()
    async with elsewhere.write() as connection:  # as a saved copy, or a standby, that lacks it
        await connection.execute(delete(changes))
        await connection.execute(text("DELETE FROM sqlite_sequence WHERE name = 'changes'"))
    await changed("bob")
    await feed.poll()
    assert heard == ["ann", "bob"]


async def test_a_change_that_cannot_be_handled_keeps_none_after_it(
    two: tuple[Database, Database],
) -> None:
    """As one that a newer release tells, which this one cannot read. Until it is given up nothing
    is trusted: it may be about a key that has ended.
    """
    here, elsewhere = two
    feed = ChangeFeed(here, MemoryCache(), clock=lambda: 0.0)  # however long a look takes
    heard: list[str] = []
    well: list[str] = []

    async def hear(value: str) -> None:
        heard.append(value)
        if value == "of another form":
            raise ValueError(value)

    async def hear_well(value: str) -> None:
        well.append(value)

    feed.subscribe("user", hear)
    feed.subscribe("user", hear_well)
    for value in ("of another form", "ann"):
        async with ChangeFeed(elsewhere, MemoryCache()).transaction() as change:
            change.changed("user", value)
    for _ in range(4):
        with pytest.raises(ValueError, match="of another form"):
            await feed.poll()
        assert not feed.trusted
    await feed.poll()  # for the fifth time
    assert feed.trusted
    assert heard == ["of another form", "ann", *["of another form"] * 4]
    assert well == heard
    async with feed.transaction() as change:  # it is written, whatever becomes of it here
        change.changed("user", "of another form")


async def test_more_changes_than_are_read_at_a_time_are_all_heard(tmp_path: Path) -> None:
    here = Database(f"sqlite:///{tmp_path / 'armory.db'}")
    await here.open()
    feed = ChangeFeed(here, MemoryCache())
    heard: set[str] = set()

    async def hear(value: str) -> None:
        heard.add(value)

    try:
        feed.subscribe("user", hear)
        await feed.poll()
        now = here.now_ms
        async with here.write() as connection:
            rows = [{"topic": "user", "value": f"{number}"} for number in range(12_000)]
            at = (await connection.execute(select(now))).scalar_one()
            await connection.execute(
                insert(changes), [{**row, "at_ms": at + place} for place, row in enumerate(rows)]
            )
        for _ in range(4):
            await feed.poll()
        assert len(heard) == 12_000
    finally:
        await here.close()


async def test_a_change_that_is_written_leaves_no_expression(
    two: tuple[Database, Database],
) -> None:
    feed = ChangeFeed(two[0], MemoryCache())
    async with feed.transaction() as change:
        change.changed("user", "ann")
    with none_collected() as gone:
        async with feed.transaction() as change:
            change.changed("user", "bob")
        await gone(Function)
