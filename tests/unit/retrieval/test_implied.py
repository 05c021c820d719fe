"""What a query asks for without saying it is found: a file that it names, to be written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.registry import RetrievalOptions, build_retriever
from armory.retrieval.retriever import Retriever

WEATHER = [
    ("forecast", "Weather forecast of a city for some days"),
    ("current", "Current weather of a city"),
    ("warnings", "Weather warnings of a region"),
    ("history", "Weather of a city in the past"),
    ("air", "Air quality of a city"),
    ("tides", "Tides at a coast"),
    ("pollen", "Pollen forecast of a region"),
    ("snow", "Snow depth in the mountains"),
]
ASKED = "Weather forecast of Oslo for the week, as a report at /tmp/oslo.md"
WRITE = "files__write_file"

pytestmark = pytest.mark.anyio
MakeTool = Callable[..., ToolRecord]


def tools(make_tool: MakeTool, writes: bool) -> list[ToolRecord]:
    made = [make_tool(name, text, "weather") for name, text in WEATHER]
    made += [make_tool(f"t{i}", f"Opens valve {i} of the pump", "plant") for i in range(60)]
    if writes:
        made.append(make_tool("write_file", "Write text content to a file", "files"))
    return made


async def ranked(retriever: Retriever, text: str) -> list[str]:
    found = await retriever.rank(Query((text,)))
    return [found.record(i).name for i in found.order.tolist()]


@pytest.mark.parametrize(
    "options",
    [RetrievalOptions(), RetrievalOptions(index="faiss"), RetrievalOptions(model="none")],
    ids=["exact", "faiss", "words"],
)
async def test_a_tool_that_writes_the_named_file_is_listed(
    make_tool: MakeTool, options: RetrievalOptions
) -> None:
    async with build_retriever(options) as retriever:
        await retriever.index(tools(make_tool, writes=True))
        told = await retriever.search(Query((ASKED,), ranker="relevance"))
        match = next(match for match in told.matches if match.tool.name == WRITE)
        assert match.score >= 0.5
        order = await ranked(retriever, ASKED)
        assert WRITE in order[:5]
        assert WRITE not in (await ranked(retriever, "Weather forecast of Oslo for the week"))[:5]


@pytest.mark.parametrize(
    ("name", "text"),
    [("write_file", "Puts text on the disk, and makes it"), ("save_file", "Keeps some text")],
)
async def test_it_need_not_speak_of_content(make_tool: MakeTool, name: str, text: str) -> None:
    some = [*tools(make_tool, writes=False), make_tool(name, text, "files")]
    async with build_retriever() as retriever:
        await retriever.index([*some, make_tool("read_file", "Reads a file", "files")])
        found = await ranked(retriever, ASKED)
        assert f"files__{name}" in found[:5]
        assert "files__read_file" not in found[:5]


async def test_where_no_tool_writes_files_none_is_put_forward(make_tool: MakeTool) -> None:
    async with build_retriever() as retriever:
        await retriever.index(tools(make_tool, writes=False))
        first = (await ranked(retriever, ASKED))[:5]
        assert [name.partition("__")[0] for name in first] == ["weather"] * 5


async def test_the_reason_says_so_and_the_query_needs_a_tool(make_tool: MakeTool) -> None:
    async with build_retriever() as retriever:
        await retriever.index(tools(make_tool, writes=True))
        text = "Write a poem about why people dream and save it to /tmp/dream.md"
        found = await retriever.rank(Query((text,)))
        assert not found.scores.refused
        place = next(i for i in found.order.tolist() if found.record(i).name == WRITE)
        reason = found.ranker.reason(found.features, found.scores, place)
        assert "asks for what it does without saying so" in reason


MEMORY = [
    ("add_observations", "Add new observations to existing entities in the knowledge graph"),
    ("create_entities", "Create multiple new entities in the knowledge graph"),
    ("delete_observations", "Delete specific observations from entities in the knowledge graph"),
    ("delete_entities", "Delete multiple entities and their relations from the knowledge graph"),
    ("search_nodes", "Search for nodes in the knowledge graph based on a query"),
    ("read_graph", "Read the entire knowledge graph"),
]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("remember that my wife's birthday is on June 3rd", "add_observations"),
        ("keep in mind: my name is Ann", "add_observations"),
        ("do you remember what my dog is called?", "search_nodes"),
        ("what do you know about me?", "search_nodes"),
        ("forget what I told you about Peter", "delete_observations"),
    ],
)
async def test_who_asks_to_remember_finds_the_memory_and_nothing_else(
    make_tool: MakeTool, asked: str, wanted: str
) -> None:
    memory = [make_tool(name, text, "memory") for name, text in MEMORY]
    async with build_retriever() as retriever:
        await retriever.index([*tools(make_tool, writes=True), *memory])
        found = await retriever.search(Query((asked,)))
        listed = {match.tool.name for match in found.matches}
        assert f"memory__{wanted}" in listed
        assert {name.partition("__")[0] for name in listed} == {"memory"}
        assert len(listed) <= 3
        await retriever.index(tools(make_tool, writes=True))
        assert not (await retriever.search(Query((asked,)))).matches  # nothing remembers there


@pytest.mark.parametrize(
    "asked",
    [
        "who is the current ceo of intel",
        "latest news on the fed rate decision",
        "who won the champions league 2025",
    ],
)
async def test_what_is_new_is_looked_up_where_the_web_can_be_searched(
    make_tool: MakeTool, asked: str
) -> None:
    web = [
        make_tool("brave_web_search", "Performs a web search for articles and pages", "brave"),
        make_tool("get_page", "Gets one page by its address", "fetch"),
    ]
    async with build_retriever() as retriever:
        await retriever.index([*tools(make_tool, writes=True), *web])
        found = await retriever.search(Query((asked,)))
        first = found.matches[0]
        assert first.tool.original_name == "brave_web_search"
        assert "without saying so" in first.reason
        assert len(found.matches) <= 3
        joke = await retriever.search(Query(("tell me a joke about the news",)))
        assert not joke.matches
        await retriever.index(tools(make_tool, writes=True))
        assert not (await retriever.search(Query((asked,)))).matches


async def test_who_has_to_be_told_is_written_to(make_tool: MakeTool) -> None:
    chat = [
        make_tool("send_email", "Sends a new email", "gmail"),
        make_tool("get_label", "Gets a label", "gmail"),
    ]
    async with build_retriever() as retriever:
        await retriever.index([*tools(make_tool, writes=True), *chat])
        for asked in ("tell my boss I'm sick today", "write back to Tom that the price is fine"):
            found = await retriever.search(Query((asked,)))
            assert [match.tool.original_name for match in found.matches] == ["send_email"]
        assert not (await retriever.search(Query(("tell me a joke about my boss",)))).matches
