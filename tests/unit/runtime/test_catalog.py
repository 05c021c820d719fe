from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from armory.domain import catalog as domain_catalog
from armory.domain.catalog import Catalog, ServerLists, ToolRules
from armory.domain.catalog_builder import CatalogBuilder
from armory.domain.tool import ToolRecord, fingerprint
from armory.errors import BackendError
from armory.runtime.catalog import keeper
from armory.runtime.catalog.keeper import REPORTED, CatalogKeeper
from armory.security.pinning import Pinning
from armory.testing.waiting import until


def lists(*names: str, **changes: str) -> ServerLists:
    tools = [{"name": name, "description": changes.get(name, "")} for name in names]
    return ServerLists(tools=tools)


class Index:
    def __init__(self) -> None:
        self.indexed: list[list[str]] = []
        self.error: Exception | None = None

    async def index(
        self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
    ) -> object:
        if self.error is not None:
            raise self.error
        self.indexed.append([tool.name for tool in tools])
        return None


class House:
    """A keeper with everything around it."""

    def __init__(
        self, pinning: Pinning | None = None, give_back: Callable[[], object] | None = None
    ) -> None:
        self.lists: dict[str, ServerLists] = {}
        self.published: list[Catalog] = []
        self.index = Index()
        self.keeper = CatalogKeeper(self.index, {}, pinning, give_back)

    async def __aenter__(self) -> House:
        self.keeper.start(lambda: self.lists, self.published.append)
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.keeper.stop()

    async def settle(self) -> list[str]:
        async with asyncio.timeout(30):
            await self.keeper.settle()
        return list(self.published[-1].tools) if self.published else []


@pytest.mark.anyio
async def test_tools_are_searchable_before_they_are_listed() -> None:
    async with House() as house:
        house.lists = {"a": lists("x"), "b": lists("y")}
        assert await house.settle() == ["a__x", "b__y"]
        assert house.index.indexed == [["a__x", "b__y"]]


@pytest.mark.anyio
async def test_tools_have_what_was_written_for_them_once_it_is() -> None:
    written: dict[str, tuple[str, ...]] = {"a__x": ("do x",)}
    house = House()
    house.keeper = CatalogKeeper(house.index, {}, examples=lambda tool: written.get(tool.name, ()))
    async with house:
        house.lists = {"a": lists("x", "y")}
        await house.settle()
        first = house.published[-1].tools
        assert [tool.examples for tool in first.values()] == [("do x",), ()]
        house.lists = {"a": house.lists["a"], "b": lists("z")}
        await house.settle()
        again = house.published[-1]
        assert again.tools["a__x"] is first["a__x"]
        assert not again.diff(house.published[0]).tools.changed


@pytest.mark.anyio
async def test_what_is_written_too_late_for_a_snapshot_is_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper, "FIRST_INDEX_S", 0.01)
    go = asyncio.Event()
    written: dict[str, tuple[str, ...]] = {}

    class Slow(Index):
        async def index(
            self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
        ) -> object:
            await go.wait()
            written["a__x"] = ("do x",)
            return await super().index(tools, outdated)

    house = House()
    house.index = slow = Slow()
    house.keeper = CatalogKeeper(slow, {}, examples=lambda tool: written.get(tool.name, ()))
    async with house:
        house.lists = {"a": lists("x")}
        assert await house.settle() == ["a__x"]
        assert house.published[-1].tools["a__x"].examples == ()
        found = asyncio.ensure_future(house.keeper.searchable())
        await house.settle()
        assert not found.done()
        go.set()
        await asyncio.wait_for(found, 30)
        await until(lambda: house.published[-1].tools["a__x"].examples == ("do x",))
        assert len(house.published) == 2


@pytest.mark.anyio
async def test_equal_lists_publish_nothing_and_new_rules_do() -> None:
    async with House() as house:
        house.lists = {"a": lists("x", "y")}
        await house.settle()
        await house.settle()
        assert len(house.published) == 1
        house.keeper.reconfigure({"a": ToolRules(deny=("y",))})
        assert await house.settle() == ["a__x"]


@pytest.mark.anyio
async def test_without_any_upstream_it_settles_too() -> None:
    async with House() as house:
        assert await house.settle() == []


@pytest.mark.anyio
async def test_an_index_that_fails_hides_no_tool() -> None:
    async with House() as house:
        house.index.error = BackendError("the store is away")
        house.lists = {"a": lists("x")}
        assert await house.settle() == ["a__x"]
        house.index.error = RuntimeError("a defect")
        house.lists = {"a": lists("x", "y")}
        assert await house.settle() == ["a__x", "a__y"]
        house.index.error = None
        house.lists = {"a": lists("z")}
        assert await house.settle() == ["a__z"]
        assert house.index.indexed[-1] == ["a__z"]


@pytest.mark.anyio
async def test_a_snapshot_that_could_not_be_served_is_served_the_next_time() -> None:
    failures = iter([RuntimeError("a defect")])

    def examples(_tool: ToolRecord) -> tuple[str, ...]:
        for failure in failures:
            raise failure
        return ()

    house = House()
    house.keeper = CatalogKeeper(house.index, {}, examples=examples)
    async with house:
        house.lists = {"a": lists("x")}
        assert [await house.settle(), await house.settle()] == [[], ["a__x"]]


@pytest.mark.anyio
async def test_of_many_problems_of_a_list_the_number_is_logged() -> None:
    async with House() as house:
        house.lists = {"a": lists("x"), "b": lists(*(["y" * 1_000] * 500)), "c": lists("z", "z")}
        with structlog.testing.capture_logs() as logged:
            await house.settle()
    told = [line for line in logged if line["event"].startswith("catalog_problem")]
    assert len(told) == REPORTED + 2
    assert all(len(line.get("problem", "")) <= 300 for line in told)
    assert {"upstream": "b", "problems": 499}.items() <= told[-1].items()


@pytest.mark.anyio
async def test_changed_definitions_are_withheld_until_they_are_approved(tmp_path: Path) -> None:
    pinning = Pinning(tmp_path / "pins.json", "block")
    async with House(pinning) as house:
        house.lists = {"a": lists("x", "y")}
        assert await house.settle() == ["a__x", "a__y"]
        house.lists = {"a": lists("x", "y", x="do something else")}
        assert await house.settle() == ["a__y"]
        elsewhere = Pinning(tmp_path / "pins.json", "block")
        (tool,) = [
            ToolRecord("a__x", "a", "x", d, fingerprint(d))
            for d in house.lists["a"].tools
            if d["name"] == "x"
        ]
        elsewhere.approve(tool)
        pinning.reopen("block", None)
        house.keeper.reconfigure({})
        assert await house.settle() == ["a__x", "a__y"]


@pytest.mark.anyio
async def test_tools_are_listed_where_their_definitions_cannot_be_kept(tmp_path: Path) -> None:
    """As with a full disk, or a folder of data that nobody may write."""
    pinning = Pinning(tmp_path / "pins.json", "block")
    (tmp_path / "pins.json").mkdir()  # nothing can take its place
    with structlog.testing.capture_logs() as logged:
        async with House(pinning) as house:
            house.lists = {"s": lists("a", "b", a="one")}
            assert await house.settle() == ["s__a", "s__b"]
            house.lists = {"s": lists("a", "b", "c", a="two")}
            assert await house.settle() == ["s__b", "s__c"]
    wrong = [entry["event"] for entry in logged if entry["log_level"] == "error"]
    assert wrong == ["pins_not_stored", "pins_not_stored"]


@pytest.mark.anyio
async def test_definitions_are_kept_as_soon_as_they_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though no list changes: whatever a start finds then would be taken as the first."""
    monkeypatch.setattr(keeper, "STORE_AGAIN_S", 0.01)
    file = tmp_path / "pins.json"
    pinning = Pinning(file, "block")
    file.mkdir()
    async with House(pinning) as house:
        house.lists = {"s": lists("a", a="one")}
        assert await house.settle() == ["s__a"]
        file.rmdir()
        await until(file.is_file)
        published = len(house.published)
    async with House(Pinning(file, "block")) as house:
        house.lists = {"s": lists("a", a="two")}
        assert await house.settle() == []
    assert published == 1


@pytest.mark.anyio
async def test_a_reload_forgets_no_definition_that_could_not_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "data" / "pins.json"
    pinning = Pinning(file, "block")
    (tmp_path / "data").touch()  # no folder, so that nothing can be kept in it
    async with House(pinning) as house:
        house.lists = {"s": lists("a", "b", a="one")}
        assert await house.settle() == ["s__a", "s__b"]
        (tmp_path / "data").unlink()
        pinning.reopen("block", None)
        house.keeper.reconfigure({})
        house.lists = {"s": lists("a", "b", a="two")}
        assert await house.settle() == ["s__b"]
    assert file.is_file()


@pytest.mark.anyio
async def test_it_tells_how_many_tools_are_being_indexed() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    class Slow(Index):
        async def index(
            self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
        ) -> object:
            begun.set()
            await go.wait()
            return await super().index(tools, outdated)

    house = House()
    house.index = slow = Slow()
    house.keeper = CatalogKeeper(slow, {})
    async with house:
        assert house.keeper.indexing == 0
        house.lists = {"a": lists("x", "y")}
        settled = asyncio.create_task(house.settle())
        async with asyncio.timeout(30):
            await begun.wait()
        assert house.keeper.indexing == 2
        go.set()
        assert await settled == ["a__x", "a__y"]
        assert house.keeper.indexing == 0


@pytest.mark.anyio
async def test_a_large_snapshot_is_made_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_catalog, "LARGE", 3)
    built: list[int] = []
    prepared: list[int] = []

    real = CatalogBuilder.build

    def build(*args: Any) -> Any:
        built.append(threading.get_ident())
        return real(*args)

    def prepare(_catalog: Catalog) -> None:
        prepared.append(threading.get_ident())

    monkeypatch.setattr(CatalogBuilder, "build", build)
    house = House()
    house.keeper.start(lambda: house.lists, house.published.append, prepare)
    here = threading.get_ident()
    house.lists = {"a": lists("x")}
    assert await house.settle() == ["a__x"]
    assert (set(built), prepared) == ({here}, [])
    built.clear()
    house.lists = {"a": lists("x", "y", "z")}
    assert await house.settle() == ["a__x", "a__y", "a__z"]
    house.lists = {"a": lists("x")}  # what was large before is compared with
    assert await house.settle() == ["a__x"]
    assert len(built) == len(prepared) == 2
    assert here not in (*built, *prepared)
    await house.keeper.stop()


@pytest.mark.anyio
async def test_memory_is_given_back_when_the_catalog_has_become_much_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper, "SHRUNK", 5)
    monkeypatch.setattr(keeper, "TRIM_AFTER_S", 0.0)
    given = asyncio.Event()
    loop = asyncio.get_running_loop()
    threads: list[int] = []

    def give_back() -> None:
        threads.append(threading.get_ident())
        loop.call_soon_threadsafe(given.set)

    async with House(give_back=give_back) as house:
        for names in ("abcdef", "abcde"):
            house.lists["up"] = lists(*names)
            await house.settle()
        assert not given.is_set()
        house.lists["up"] = lists()
        await house.settle()
        async with asyncio.timeout(10):
            await given.wait()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


@pytest.mark.anyio
async def test_memory_is_given_back_once_more_when_the_index_has_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper, "SHRUNK", 5)
    monkeypatch.setattr(keeper, "TRIM_AFTER_S", 0.0)
    monkeypatch.setattr(keeper, "INDEX_S", 0.0)
    go = asyncio.Event()
    loop = asyncio.get_running_loop()
    given: asyncio.Queue[None] = asyncio.Queue()

    class Slow(Index):
        async def index(
            self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
        ) -> object:
            if len(tools) == 1:
                await go.wait()
            return await super().index(tools, outdated)

    house = House()
    house.index = slow = Slow()
    house.keeper = CatalogKeeper(
        slow, {}, None, lambda: loop.call_soon_threadsafe(given.put_nowait, None)
    )
    async with house, asyncio.timeout(30):
        for names in ("abcdef", "a"):
            house.lists["up"] = lists(*names)
            await house.settle()
        await given.get()
        assert given.empty()
        go.set()
        await given.get()
