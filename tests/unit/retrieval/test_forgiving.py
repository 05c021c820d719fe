"""Misspelt queries find and list what the same words, spelt rightly, do; by every ranker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.registry import build_retriever
from armory.retrieval.retriever import Retriever

TOOLS = {
    "git__git_commit": "Records changes to the repository",
    "git__git_create_branch": "Creates a new branch from an optional base branch",
    "git__git_diff_staged": "Shows changes that are staged for commit",
    "time__get_current_time": "Get current time in a specific timezone",
    "time__convert_time": "Convert time between timezones",
    "k8s__deploy": "Deploy an application to the cluster",
    "k8s__scale": "Scale a workload up or down",
    "web__search": "Search the web for pages",
    "web__fetch": "Fetch a web page",
    "notes__add": "Add a note",
    "mail__send": "Send an email to somebody",
    "weather__forecast": "Weather forecast of a place for some days",
}


MISSPELT = {
    "deeploy": ("deploy", "k8s__deploy"),
    "comit my chnges": ("commit my changes", "git__git_commit"),
    "what tiem is it in tokyo": ("what time is it in tokyo", "time__get_current_time"),
    "creat a new branhc": ("create a new branch", "git__git_create_branch"),
    "serach": ("search", "web__search"),
}

pytestmark = pytest.mark.anyio
MakeTool = Callable[..., ToolRecord]


@pytest.fixture
async def retriever(make_tool: MakeTool) -> AsyncIterator[Retriever]:
    async with build_retriever() as made:
        await made.index(
            [
                make_tool(key.partition("__")[2], text, key.partition("__")[0])
                for key, text in TOOLS.items()
            ]
        )
        yield made


async def shown(retriever: Retriever, text: str, ranker: str) -> list[tuple[str, float]]:
    found = await retriever.search(Query((text,), ranker=ranker))
    return [(match.tool.name, match.score) for match in found.matches]


@pytest.mark.parametrize("ranker", ["relevance", "hybrid", "semantic", "lexical", "multi_factor"])
async def test_a_misspelt_query_lists_what_was_meant(retriever: Retriever, ranker: str) -> None:
    for misspelt, (meant, wanted) in MISSPELT.items():
        listed = await shown(retriever, misspelt, ranker)
        assert wanted in [name for name, _ in listed], misspelt
        assert listed == await shown(retriever, meant, ranker)
