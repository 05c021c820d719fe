"""ToolMemory while it changes: selections given up, failures, removals under a search, room."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Sequence

import pytest

from armory import AsyncToolMemory, ToolMemory
from armory.domain.query import VisibleSet
from armory.errors import InvalidRequest
from armory.retrieval.ports import FloatArray
from armory.testing.embedder import HashingEmbedder

WEATHER = {"name": "get_weather", "description": "Weather forecast for a city"}
EMAIL = {"name": "send_email", "description": "Send an email message to a person"}
WAIT_S = 10


class Gated(HashingEmbedder):
    """An embedder whose calls wait for as long as its gate is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    def shut(self) -> None:
        self.entered.clear()
        self.gate.clear()

    async def _wait(self) -> None:
        self.entered.set()
        await asyncio.wait_for(self.gate.wait(), WAIT_S)

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        await self._wait()
        return await super().embed_documents(texts)

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        await self._wait()
        return await super().embed_queries(texts)


@pytest.mark.anyio
async def test_a_selection_that_is_given_up_leaves_the_rest_to_the_next() -> None:
    model = Gated()
    async with AsyncToolMemory(embedder=model) as memory:
        memory.add(WEATHER, EMAIL)
        model.shut()
        first = asyncio.create_task(memory.select_tools_for_query("weather forecast"))
        await asyncio.wait_for(model.entered.wait(), WAIT_S)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        model.gate.set()
        best = (await memory.select_tools_for_query("weather forecast"))[0]
        assert best["name"] == "get_weather"
        assert best["_score"] > 0.5, "its vectors are there"


@pytest.mark.anyio
async def test_indexing_that_fails_is_tried_again_by_the_next_selection() -> None:
    model = HashingEmbedder()
    async with AsyncToolMemory(embedder=model) as memory:
        memory.add(WEATHER)
        await memory.select_tools_for_query("weather")
        memory.add(EMAIL)
        model.failure = ValueError("a model with a defect")
        with pytest.raises(ValueError, match="a defect"):
            await memory.select_tools_for_query("send an email message")
        model.failure = None
        best = (await memory.select_tools_for_query("send an email message"))[0]
        assert best["name"] == "send_email"


@pytest.mark.anyio
async def test_a_tool_may_be_removed_while_a_search_runs() -> None:
    model = Gated()
    async with AsyncToolMemory(embedder=model) as memory:
        memory.add(WEATHER, EMAIL)
        await memory.select_tools_for_query("warm up")
        model.shut()
        search = asyncio.create_task(memory.select_tools_for_query("weather forecast"))
        await asyncio.wait_for(model.entered.wait(), WAIT_S)
        memory.remove("send_email")
        memory.add({"name": "wipe", "description": "Weather", "private": True})
        model.gate.set()
        found = [tool["name"] for tool in await search]
        assert found[0] == "get_weather"
        assert "wipe" not in found
        assert [t["name"] for t in await memory.select_tools_for_query("email")] == ["get_weather"]


def test_selecting_keeps_no_list_of_names_for_every_query() -> None:
    def sets() -> int:
        gc.collect()
        return sum(type(one) is VisibleSet for one in gc.get_objects())

    with ToolMemory(embedder="none") as memory:
        memory.add(WEATHER, EMAIL, {"name": "wipe", "metadata": {"team": "ops"}})
        before = sets()
        for number in range(20):
            memory.select_tools_for_query(f"weather {number}")
            memory.select_tools_for_query(f"weather {number}", filters={"team": "ops"})
            memory.select_tools_for_query(f"weather {number}", exclude=["wipe"])
        assert sets() - before <= 3


@pytest.mark.anyio
async def test_a_context_shows_tools_as_they_are_now() -> None:
    async with AsyncToolMemory(embedder="none") as memory:
        memory.add(WEATHER, EMAIL, {"name": "get_time", "description": "Time in a city"})
        context = memory.expansion(max_tools=2)
        await context.search_tools("weather forecast", 1)
        await context.search_tools("email message", 1)
        memory.update("send_email", description="Send a letter")
        memory.remove("get_weather")
        told = [(tool["name"], tool["description"]) for tool in context.tools]
        assert told == [("send_email", "Send a letter")]
        await context.search_tools("time", 1)
        assert [tool["name"] for tool in context.tools] == ["send_email", "get_time"]
        memory.update("get_time", metadata={"private": True})
        assert [tool["name"] for tool in context.tools] == ["send_email"]


@pytest.mark.anyio
async def test_a_schema_that_was_selected_is_the_callers_to_change() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    async with AsyncToolMemory(embedder="none") as memory:
        memory.add({**WEATHER, "inputSchema": schema, "outputSchema": schema})
        context = memory.expansion()
        for found in (await context.search_tools("weather", 1), context.tools):
            for key in ("inputSchema", "outputSchema"):
                told = found[0][key]
                assert told is not None
                told["properties"]["city"]["type"] = "changed"
        tool = memory.get("get_weather")
        assert tool.input_schema == tool.output_schema == schema
        assert schema["properties"] == {"city": {"type": "string"}}


def test_a_memory_may_be_used_in_one_event_loop_after_the_other() -> None:
    memory = AsyncToolMemory(embedder=HashingEmbedder())
    memory.add(WEATHER)
    for _ in range(2):
        assert asyncio.run(memory.select_tools_for_query("weather"))
    memory.add(EMAIL)
    assert len(asyncio.run(memory.select_tools_for_query("weather"))) == 2
    asyncio.run(memory.aclose())


def test_a_memory_serves_one_event_loop_at_a_time_and_says_so() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Held(HashingEmbedder):
        async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
            entered.set()
            await asyncio.to_thread(leave.wait, WAIT_S)
            return await super().embed_queries(texts)

    memory = AsyncToolMemory(embedder=Held())
    memory.add(WEATHER)
    found: list[str] = []

    async def select() -> None:
        found.append((await memory.select_tools_for_query("weather"))[0]["name"])

    elsewhere = threading.Thread(target=lambda: asyncio.run(select()))
    elsewhere.start()
    try:
        assert entered.wait(WAIT_S)
        with pytest.raises(InvalidRequest, match="another event loop uses this memory now"):
            asyncio.run(select())
    finally:
        leave.set()
        elsewhere.join(WAIT_S)
    asyncio.run(select())
    assert found == ["get_weather"] * 2
    asyncio.run(memory.aclose())


class Closing(HashingEmbedder):
    """An embedder that says when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = threading.Event()

    async def aclose(self) -> None:
        self.closed.set()


def test_a_memory_that_nobody_holds_any_more_is_closed() -> None:
    before, model = set(threading.enumerate()), Closing()
    memory = ToolMemory(embedder=model)
    memory.add(WEATHER)
    context = memory.expansion()
    del memory
    gc.collect()
    assert [tool["name"] for tool in context.search_tools("weather")] == ["get_weather"]
    assert not model.closed.is_set(), "its working set holds it"
    del context
    gc.collect()
    assert model.closed.wait(WAIT_S)
    for thread in set(threading.enumerate()) - before:
        if thread.name == "armory-tool-memory":  # others are the process's
            thread.join(WAIT_S)
            assert not thread.is_alive()
