"""The change feed of an SQLite file: a commit is heard, silence costs no transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from armory.storage.cache import MemoryCache
from armory.storage.changes import QUIET_S, ChangeFeed
from armory.storage.database import Database

pytestmark = pytest.mark.anyio


async def test_a_quiet_database_is_not_asked_and_a_commit_is_heard_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    here, elsewhere = Database(url), Database(url)
    await here.open()
    await elsewhere.open()
    now = 1_000.0
    feed = ChangeFeed(here, MemoryCache(), clock=lambda: now)
    heard: list[str] = []
    asked: list[Any] = []

    async def hear(value: str) -> None:
        heard.append(value)

    try:
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
    finally:
        await elsewhere.close()
        await here.close()
