"""Where no tool is of the kind that a short wish is for, nothing is listed, and reasons say it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.registry import build_retriever

TOOLS = {
    "git__create_branch": "Create a new branch",
    "git__list_commits": "List the commits of a branch, in order",
    "web__take_screenshot": "Take a screenshot of the page",
    "web__emulate": "Emulate a device, a colour scheme (light or dark) or a network",
    "web__turn_off_javascript": "Turn JavaScript off",
    "db__find": "Find documents in a collection",
    "db__sort": "Put documents of a collection in order",
}

pytestmark = pytest.mark.anyio
MakeTool = Callable[..., ToolRecord]


@pytest.mark.parametrize("ranker", ["relevance", "hybrid", "lexical"])
@pytest.mark.parametrize(
    "wish", ["order a pizza", "find me a flight to Madrid", "bestell eine Pizza"]
)
async def test_nothing_is_listed(make_tool: MakeTool, ranker: str, wish: str) -> None:
    async with build_retriever() as retriever:
        await retriever.index(_made(make_tool))
        found = await retriever.search(Query((wish,), ranker=ranker))
        assert found.refused
        assert not found.matches
        assert "no tool" in found.nearest[0].explanation.reason


async def test_no_lights_no_switch(make_tool: MakeTool) -> None:
    async with build_retriever() as retriever:
        await retriever.index(_made(make_tool))
        assert not (await retriever.search(Query(("turn off the lights",)))).matches
        for texts in (
            ("order a pizza, then create a branch",),
            ("turn off the lights", "create a branch"),
            ("find me a flight to Madrid", "create a branch"),
        ):
            found = await retriever.search(Query(texts))
            assert "git__create_branch" in [match.tool.name for match in found.matches], texts


def _made(make_tool: MakeTool) -> list[ToolRecord]:
    made = [
        make_tool(key.partition("__")[2], text, key.partition("__")[0])
        for key, text in TOOLS.items()
    ]
    return made + [make_tool(f"t{i}", f"Opens valve {i} of the pump", "plant") for i in range(60)]
