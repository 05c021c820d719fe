"""ToolMemory: adding, selecting, filtering, expanding, saving; in both faces."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

import armory
from armory import AsyncToolMemory, Tool, ToolMemory
from armory.errors import ConfigError, InvalidRequest, UnknownTool
from armory.testing.embedder import HashingEmbedder


def get_weather(city: str, days: int = 1, unit: Literal["C", "F"] | None = None) -> str:
    """Weather forecast for a city."""
    return f"sun in {city}"


def send_email(to: list[str], text: str) -> None:
    """Send an email message to people."""


SEARCH = {
    "name": "search_files",
    "description": "Search files on disk by name",
    "inputSchema": {"type": "object", "properties": {"pattern": {"type": "string"}}},
    "metadata": {"team": "ops"},
    "tags": ["disk"],
}
HIDDEN = Tool("wipe", "wipe_disk", "Wipe files on a disk", metadata={"private": True})


@pytest.fixture
async def memory() -> AsyncIterator[AsyncToolMemory]:
    async with AsyncToolMemory(embedder=HashingEmbedder()) as made:
        made.add(get_weather, send_email, SEARCH, HIDDEN)
        yield made


@pytest.mark.anyio
async def test_the_best_tool_comes_first_and_can_be_called(memory: AsyncToolMemory) -> None:
    found = await memory.select_tools_for_query("weather forecast in Budapest", top_k=2)
    best = found[0]
    assert best["identifier"] == "get_weather"
    handle = best["handle"]
    assert handle is not None
    assert handle is get_weather
    assert handle("Rome") == "sun in Rome"
    assert len(found) == 2
    assert best["_score"] > found[1]["_score"]
    assert 0 <= best["_relevance"] <= 1
    assert best["_reason"]


def test_a_callables_schema() -> None:
    tool = Tool.of(get_weather)
    assert tool.description == "Weather forecast for a city."
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "default": 1},
            "unit": {"type": "string", "enum": ["C", "F"]},
        },
        "required": ["city"],
    }
    listed = Tool.of(send_email).input_schema["properties"]["to"]
    assert listed == {"type": "array", "items": {"type": "string"}}


@pytest.mark.anyio
async def test_metadata_filters_and_private_tools(memory: AsyncToolMemory) -> None:
    async def select(**options: Any) -> set[str]:
        found = await memory.select_tools_for_query("files on a disk", 10, **options)
        return {tool["identifier"] for tool in found}

    assert await select() == {"get_weather", "send_email", "search_files"}
    assert "wipe" in await select(include_private=True)
    assert await select(filters={"team": "ops"}) == {"search_files"}
    assert await select(filters={"tags": "disk"}) == {"search_files"}
    assert await select(filters={"tags": ["network", "disk"]}) == {"search_files"}
    assert await select(filters={"tags": ["network"]}) == set()

    def mails(tool: Tool) -> bool:
        return "mail" in tool.name

    assert await select(filters=mails) == {"send_email"}
    assert await select(filters={"team": "nobody"}) == set()
    assert await select(exclude=["send_email"]) == {"get_weather", "search_files"}


@pytest.mark.anyio
async def test_zero_is_a_threshold(memory: AsyncToolMemory) -> None:
    free = await memory.select_tools_for_query("weather", 10)
    floor = await memory.select_tools_for_query("weather", 10, min_score=0.0)
    assert [t["_score"] for t in floor] == [t["_score"] for t in free if t["_score"] >= 0]
    none = await memory.select_tools_for_query("weather", 10, min_score=1.01)
    assert none == []
    judged = await memory.select_tools_for_query("weather", 10, threshold=0.0)
    assert len(judged) in (0, len(free)), "all of them, or the query was refused"


@pytest.mark.anyio
@pytest.mark.parametrize("embedder", [None, HashingEmbedder()])
async def test_a_threshold_is_the_least_relevance(embedder: HashingEmbedder | None) -> None:
    async with AsyncToolMemory(embedder=embedder) as memory:
        memory.add(*(Tool(f"mail-{i}", "send_email", "Send an email") for i in range(30)), SEARCH)
        every = await memory.select_tools_for_query("send an email", 40)
        assert len(every) == 31
        for least in (0.0, 0.2, every[10]["_relevance"], 0.95, 1.0):
            found = await memory.select_tools_for_query("send an email", 40, threshold=least)
            assert [t["identifier"] for t in found] == [
                t["identifier"] for t in every if t["_relevance"] >= least
            ]


@pytest.mark.anyio
async def test_update_and_remove_are_seen_at_once(memory: AsyncToolMemory) -> None:
    memory.update("send_email", description="Translate a poem into Hungarian")
    found = await memory.select_tools_for_query("translate a poem into hungarian", 1)
    assert found[0]["identifier"] == "send_email"
    assert found[0]["handle"] is send_email
    memory.remove("send_email")
    assert "send_email" not in memory
    found = await memory.select_tools_for_query("translate a poem into hungarian", 10)
    assert "send_email" not in {tool["identifier"] for tool in found}


@pytest.mark.anyio
async def test_examples_are_searched_as_well(memory: AsyncToolMemory) -> None:
    text = "umbrella or sunglasses"
    before = await memory.select_tools_for_query(text, 1)
    assert before[0]["_score"] < 0.9
    memory.update("get_weather", examples=(text,))
    found = await memory.select_tools_for_query(text, 1)
    assert found[0]["identifier"] == "get_weather"
    assert found[0]["_score"] > 0.99


@pytest.mark.anyio
async def test_wrong_use_is_told(memory: AsyncToolMemory) -> None:
    with pytest.raises(InvalidRequest, match="already is a tool 'get_weather'"):
        memory.add(get_weather)
    with pytest.raises(UnknownTool, match="no tool 'nothing'"):
        memory.remove("nothing")
    with pytest.raises(InvalidRequest, match="cannot be updated"):
        memory.update("get_weather", colour="red")
    with pytest.raises(InvalidRequest, match="is no tool"):
        memory.add(42)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="needs a name"):
        memory.add({"description": "x"})
    with pytest.raises(InvalidRequest, match="top_k is 0"):
        await memory.select_tools_for_query("x", 0)
    with pytest.raises(InvalidRequest, match="blank"):
        await memory.select_tools_for_query("  ")
    with pytest.raises(ConfigError, match="needs a folder"):
        await memory.save()


@pytest.mark.anyio
async def test_saving_and_loading(memory: AsyncToolMemory, tmp_path: Path) -> None:
    await memory.save(tmp_path)
    again = HashingEmbedder()
    async with AsyncToolMemory(embedder=again, folder=tmp_path) as other:
        assert await other.load(handles={"get_weather": get_weather}) == 4
        best = (await other.select_tools_for_query("weather forecast", 1))[0]
        assert best["handle"] is get_weather
        assert other.get("wipe").private
        assert other.get("search_files").tags == ("disk",)
        assert again.documents == 0, "vectors are kept beside the tools"
    third = HashingEmbedder()
    async with AsyncToolMemory(embedder=third, folder=tmp_path) as other:
        await other.load()
        await other.select_tools_for_query("weather", 1)
        assert third.documents == 0
    (tmp_path / "tools.json").write_text('{"version": 99}')
    async with AsyncToolMemory(embedder=third, folder=tmp_path) as other:
        with pytest.raises(ConfigError, match="version 1"):
            await other.load()
        assert len(other) == 0


@pytest.mark.anyio
async def test_a_memory_without_a_folder_has_the_first_that_it_is_given(
    memory: AsyncToolMemory, tmp_path: Path
) -> None:
    await memory.save(tmp_path / "first")
    await memory.save(tmp_path / "second")
    assert not (tmp_path / "second" / "vectors.db").exists()
    for embeds in (True, False):  # "second" has no vectors yet
        embedder = HashingEmbedder()
        async with AsyncToolMemory(embedder=embedder) as other:
            await other.load(tmp_path / "second")
            await other.select_tools_for_query("weather", 1)
            assert bool(embedder.documents) is embeds
            assert await other.save() == tmp_path / "second" / "tools.json"


@pytest.mark.anyio
async def test_a_folder_whose_vectors_are_damaged(memory: AsyncToolMemory, tmp_path: Path) -> None:
    (tmp_path / "vectors.db").write_bytes(b"no database" * 500)
    await memory.save(tmp_path)
    embedder = HashingEmbedder()
    async with AsyncToolMemory(embedder=embedder) as other:
        await other.load(tmp_path)
        await other.select_tools_for_query("weather", 1)
    assert embedder.documents == 0


@pytest.mark.anyio
async def test_closing_leaves_no_file_open(tmp_path: Path) -> None:
    async with AsyncToolMemory(embedder=HashingEmbedder(), folder=tmp_path) as memory:
        memory.add(get_weather)
        await memory.select_tools_for_query("weather")
        log = tmp_path / "vectors.db-wal"  # which SQLite deletes with the last connection
        assert log.exists()
    assert not log.exists()


@pytest.mark.anyio
async def test_half_an_emoji_is_saved_as_well(tmp_path: Path) -> None:
    async with AsyncToolMemory(embedder="none") as memory:
        memory.add({"name": "weather", "description": "sun \ud83c"})
        await memory.save(tmp_path)
    async with AsyncToolMemory(embedder="none") as other:
        assert await other.load(tmp_path) == 1
        assert other.get("weather").description == "sun \ud83c"


@pytest.mark.anyio
async def test_a_tool_that_is_no_json_leaves_the_saved_file_alone(
    memory: AsyncToolMemory, tmp_path: Path
) -> None:
    path = await memory.save(tmp_path)
    before = path.read_bytes()
    memory.add(Tool("odd", "odd", metadata={"value": object()}))
    said = "tool 'odd' cannot be saved: its metadata is no JSON: Object of type object"
    with pytest.raises(InvalidRequest, match=said) as caught:
        await memory.save(tmp_path)
    assert caught.value.parameter == "metadata"
    assert path.read_bytes() == before
    left = [name for name in os.listdir(tmp_path) if "tools.json" in name]
    assert left == ["tools.json"]


@pytest.mark.anyio
async def test_a_context_grows_by_searching_and_stays_bounded(memory: AsyncToolMemory) -> None:
    context = memory.expansion(max_tools=2)
    await context.search_tools("weather forecast for a city", top_k=1)
    assert [t["identifier"] for t in context.tools] == ["get_weather"]
    small = context.tokens
    found = await context.search_tools("send an email message", top_k=1)
    assert [t["identifier"] for t in found] == ["send_email"]
    assert len(context.tools) == 2
    assert context.tokens > small
    await context.search_tools("search files on disk", top_k=1)
    assert [t["identifier"] for t in context.tools] == ["send_email", "search_files"]
    best, second = await context.search_tools("weather forecast and email", top_k=2)
    await context.search_tools("search files on disk", top_k=1)
    assert best["_relevance"] > second["_relevance"], "the best of a search stays longest"
    kept = [best["identifier"], "search_files"]
    assert [t["identifier"] for t in context.tools] == kept


@pytest.mark.anyio
async def test_words_only_needs_no_model() -> None:
    async with AsyncToolMemory(embedder="none") as memory:
        memory.add(get_weather, send_email)
        best = (await memory.select_tools_for_query("weather", 1))[0]
        assert (best["identifier"], best["_score"]) == ("get_weather", 0.0)


@pytest.mark.anyio
async def test_concurrent_selections_index_once() -> None:
    model = HashingEmbedder()
    async with AsyncToolMemory(embedder=model) as memory:
        memory.add(get_weather, send_email)
        await asyncio.gather(*(memory.select_tools_for_query("weather") for _ in range(5)))
        once = model.documents
        memory.update("get_weather", description="Weather forecast for any city")
        await asyncio.gather(*(memory.select_tools_for_query("weather") for _ in range(5)))
        assert model.documents <= once + 2


def test_the_synchronous_face(tmp_path: Path) -> None:
    with ToolMemory(embedder=HashingEmbedder(), folder=tmp_path) as memory:
        assert memory.add(get_weather, send_email) == ["get_weather", "send_email"]
        assert memory.select_tools_for_query("weather forecast", 1)[0]["handle"] is get_weather
        memory.update("send_email", tags=("office",))
        assert memory.get("send_email").tags == ("office",)
        context = memory.expansion(max_tools=1)
        context.search_tools("send an email", 1)
        assert (len(context.tools), len(memory)) == (1, 2)
        memory.save()
        memory.remove("send_email")
        assert "send_email" not in memory
        with pytest.raises(InvalidRequest):
            memory.select_tools_for_query("")
        failures: list[BaseException] = []

        def work() -> None:
            try:
                memory.select_tools_for_query("weather")
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert failures == []
    with ToolMemory(embedder=HashingEmbedder(), folder=tmp_path) as memory:
        assert memory.load() == 2


def test_the_public_names() -> None:
    assert sorted(armory.__all__) == [
        "ArmoryError", "AsyncToolMemory", "SelectedTool", "Tool", "ToolMemory",
    ]  # fmt: skip
    assert set(armory.__all__) <= set(dir(armory)), "help(armory) has none that dir() has not"
    for name in armory.__all__:
        assert getattr(armory, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        armory.nonsense  # noqa: B018


def test_tools_as_json_say_private_and_may_be_pairs_and_typos_are_refused() -> None:
    assert Tool.of({"name": "wipe", "private": True}).private
    assert not Tool.of({"name": "wipe", "private": False, "metadata": {"private": True}}).private
    pair = Tool.of(("wipe-1", {"name": "wipe", "description": "Wipe a disk", "_meta": {}}))
    assert (pair.identifier, pair.name, pair.description) == ("wipe-1", "wipe", "Wipe a disk")
    assert Tool.of(("wipe-1", {})).name == "wipe-1"
    for bad, said in (
        ({"name": "wipe", "privat": True}, "'privat', which is not known"),
        ({"name": "wipe", "private": "yes"}, "private is 'yes'"),
        (("wipe",), "identifier, mapping"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            Tool.of(bad)  # pyright: ignore[reportArgumentType]
