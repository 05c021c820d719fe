"""Many indexed tools, written and read while others are served."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from armory.accounts import registry
from armory.accounts.registry import ToolRegistry
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.tasks import start, stop

pytestmark = pytest.mark.anyio
TOOLS = [{"name": f"tool{number:04}", "description": "one of many"} for number in range(1_000)]


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[ToolRegistry]:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await database.open()
    yield ToolRegistry(database, ChangeFeed(database, MemoryCache()))
    await database.close()


@contextmanager
def statements() -> Generator[list[str]]:
    """What the database is asked meanwhile."""
    asked: list[str] = []

    def note(*given: Any) -> None:
        asked.append(given[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def test_many_are_written_with_few_statements(kept: ToolRegistry) -> None:
    with statements() as written:
        names, _ = await kept.add(TOOLS, server="aws")
    assert names == [f"aws__{tool['name']}" for tool in TOOLS]
    assert sum("INSERT INTO indexed_tools" in text for text in written) <= len(TOOLS) / 50
    await kept.add([{**TOOLS[7], "description": "another"}], server="aws", tags=["x"])
    assert kept.records["aws__tool0007"].description == "another"
    assert (kept.records["aws__tool0007"].tags, kept.records["aws__tool0008"].tags) == (("x",), ())


async def test_what_there_is_of_many_servers_is_read_once(kept: ToolRegistry) -> None:
    by_server = {f"s{number}": TOOLS[:1] for number in range(50)}
    with statements() as asked:
        names, _ = await kept.add_all(by_server)
    assert names == [f"{server}__tool0000" for server in by_server]
    assert sum("FROM indexed_tools" in text for text in asked) <= 3


async def test_a_tool_that_is_skipped_and_called_otherwise_is_found_so(kept: ToolRegistry) -> None:
    alike, _ = await kept.add([{"name": "a.b"}, {"name": "a b"}], server="aws")
    assert set(kept.records) == set(alike)
    await kept.remove(alike[1:])
    assert await kept.add([{"name": "a.b"}], server="aws", skip_existing=True) == ([], ["aws__a_b"])
    assert list(kept.records) == ["aws__a_b"]


async def test_others_have_their_turn_while_many_are_read(
    kept: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, _ = await kept.add(TOOLS, server="aws")
    turn, made, fingerprint = 0, Counter[int](), registry.fingerprint

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(definition: Any) -> str:
        made[turn] += 1
        return fingerprint(definition)

    monkeypatch.setattr(registry, "fingerprint", noted)
    counting = start(count(), "turns of the loop")
    await kept.load()
    await stop(counting)
    assert list(kept.records) == names
    assert max(made.values()) <= 100
