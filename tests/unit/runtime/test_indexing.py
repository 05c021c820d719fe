"""Whoever is told that indexing goes on is told how far it is, and when it is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from structlog.testing import capture_logs

from armory.cli.gateway.announcing import Announcer, Indexing
from armory.domain.catalog import Catalog, ServerLists
from armory.domain.tool import ToolRecord
from armory.observability.settings import LogSettings
from armory.runtime.catalog.keeper import CatalogKeeper


class Held:
    """An index that takes as long as it is held."""

    def __init__(self) -> None:
        self.free = asyncio.Event()

    async def index(
        self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
    ) -> object:
        await self.free.wait()
        return None


@pytest.mark.anyio
@pytest.mark.parametrize("late", [True, False])
async def test_the_log_says_when_a_late_index_is_complete(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    monkeypatch.setattr("armory.runtime.catalog.keeper.FIRST_INDEX_S", 0.0 if late else 60.0)
    index, published = Held(), list[Catalog]()
    lists = {"a": ServerLists(tools=[{"name": "x"}])}
    keeper = CatalogKeeper(index, {})
    keeper.start(lambda: lists, published.append)
    try:
        with capture_logs() as logs:
            async with asyncio.timeout(10):
                if not late:
                    index.free.set()
                await keeper.settle()
                index.free.set()
                said: list[str] = []
                while late and "indexing_complete" not in said:
                    await asyncio.sleep(0)
                    said = [entry["event"] for entry in logs]
    finally:
        await keeper.stop()
    events = [entry["event"] for entry in logs if entry["event"].startswith("indexing")]
    assert events == (["indexing_goes_on", "indexing_complete"] if late else [])


class Asked(Held):
    """Keeps what says whether the list is outdated, too."""

    def __init__(self) -> None:
        super().__init__()
        self.indexed: list[int] = []
        self.outdated: Callable[[], bool] | None = None

    async def index(
        self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
    ) -> object:
        self.indexed.append(len(tools))
        self.outdated = outdated
        return await super().index(tools)


@pytest.mark.anyio
async def test_a_list_is_outdated_when_a_much_shorter_one_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("armory.runtime.catalog.keeper.FIRST_INDEX_S", 0.0)
    monkeypatch.setattr("armory.runtime.catalog.keeper.INDEX_S", 0.0)
    index = Asked()
    lists: dict[str, ServerLists] = {}
    keeper = CatalogKeeper(index, {})
    keeper.start(lambda: lists, lambda _catalog: None)
    said: list[bool] = []
    try:
        async with asyncio.timeout(30):
            for tools in (10, 9, 4):
                lists = {"a": ServerLists(tools=[{"name": f"x{i}"} for i in range(tools)])}
                await keeper.settle()
                assert index.outdated is not None
                said.append(index.outdated())
            index.free.set()
            await keeper.settle()
    finally:
        await keeper.stop()
    assert said == [False, False, True], "one of about the same length waits for its turn"
    assert index.indexed == [10, 4]


@pytest.mark.anyio
@pytest.mark.parametrize("waits", [True, False])
async def test_a_list_that_has_long_been_embedded_gives_way_to_a_newer_one(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    monkeypatch.setattr("armory.runtime.catalog.keeper.FIRST_INDEX_S", 0.0)
    monkeypatch.setattr("armory.runtime.catalog.keeper.INDEX_S", 0.0)
    monkeypatch.setattr("armory.runtime.catalog.indexing.TURN_S", 0.0)
    index = Asked()
    lists = {"a": ServerLists(tools=[{"name": "x"}])}
    keeper = CatalogKeeper(index, {})
    keeper.start(lambda: lists, lambda _catalog: None)
    try:
        async with asyncio.timeout(30):
            await keeper.settle()
            if waits:
                lists = {"a": ServerLists(tools=[{"name": "x"}, {"name": "late"}])}
                await keeper.settle()
            assert index.outdated is not None
            assert index.outdated() is waits, "the tools of a slow upstream would not be found"
    finally:
        await keeper.stop()


def test_progress_is_said_now_and_then_and_never_of_what_is_quick(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    indexing = Indexing(Announcer(LogSettings(log_format="console")), 10.0, clock=lambda: now)
    indexing.shown(100, 4_000)
    indexing.shown(4_000, 4_000)
    assert capsys.readouterr().err == ""
    for now in (100.0, 105.0, 111.0, 112.0, 122.0):
        indexing.shown(int(now) * 10, 4_000)
    assert capsys.readouterr().err.splitlines() == [
        "armory: embedding tools, 1,110 of 4,000 texts",
        "armory: embedding tools, 1,220 of 4,000 texts",
    ]
