"""A catalog that changes tool by tool is searched, bit for bit, as one that was read anew."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.testing.embedder import HashingEmbedder
from tests.unit.retrieval.conftest import MakeTool

pytestmark = pytest.mark.anyio
WORDS = ["send", "read", "mail", "file", "issue", "weather", "price", "flight", "translate"]
QUERIES = ("send a mail", "read the file and then translate it", "weather map", "price of a flihgt")


class Changing:
    """Tools, one step after the other."""

    def __init__(self, tools: list[ToolRecord], make_tool: MakeTool) -> None:
        self.chance = random.Random(5)
        self.make_tool, self.made = make_tool, 0
        self.tools = [*tools, *(self.new() for _ in range(60))]

    def new(self) -> ToolRecord:
        self.made += 1
        return self.make_tool(f"tool{self.made}", self.said())

    def said(self) -> str:
        return " ".join(self.chance.choices(WORDS, k=6))

    def step(self) -> None:
        place = self.chance.randrange(len(self.tools))
        tool = self.tools[place]
        match self.chance.randrange(6):
            case 0:
                self.tools.insert(place, self.new())
            case 1:
                del self.tools[place]
            case 2:
                self.tools.append(self.tools.pop(place))
            case 3:
                self.tools[place] = replace(tool, server=f"{tool.server}x", category="moved")
            case 4:
                self.tools[place] = replace(tool)  # as it was, another object
            case _:
                self.tools[place] = replace(tool, description=self.said())


async def ranked(one: Retriever, ranker: str, tools: list[ToolRecord]) -> list[object]:
    half = VisibleSet(frozenset(tool.name for tool in tools[::2]))
    found: list[object] = []
    for text in QUERIES:
        for visible in (None, half):
            query = Query((text,), ranker=ranker)
            selection = await one.search(query, visible, explain=True)
            found.append([(m.tool, m.score.hex()) for m in selection.ranking])
    for narrowed in (
        Query(("mail",), ranker=ranker, categories=frozenset({"moved"})),
        Query(("mail",), ranker=ranker, servers=frozenset({"srvx"})),
    ):
        selection = await one.search(narrowed, explain=True)
        found.append([(m.tool, m.score.hex()) for m in selection.ranking])
    return found


async def test_every_ranking_is_the_one_of_a_catalog_read_anew(
    make_tool: MakeTool, tools: list[ToolRecord]
) -> None:
    rankers = make_rankers()
    changing = Changing(tools, make_tool)
    async with Retriever(HashingEmbedder(), ExactIndex(), rankers) as one:
        await one.index(changing.tools)
        for turn in range(12):
            for _ in range(changing.chance.randrange(1, 4)):
                changing.step()
            await one.index(list(changing.tools))
            assert list(one.tools) == changing.tools
            async with Retriever(HashingEmbedder(), ExactIndex(), rankers) as anew:
                await anew.index(changing.tools)
                ranker = sorted(rankers)[turn % len(rankers)]
                assert await ranked(one, ranker, changing.tools) == await ranked(
                    anew, ranker, changing.tools
                )
