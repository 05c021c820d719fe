"""What searches get while tools are being indexed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.options import Limits
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder
from tests.unit.retrieval.conftest import MakeTool

pytestmark = pytest.mark.anyio
LOW = RetrieverSettings(limits=Limits(threshold=0.0))


class Gate(HashingEmbedder):
    """Embeds documents only once it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        self.entered.set()
        await self.opened.wait()
        return await super().embed_documents(texts)


async def test_searches_are_served_while_tools_are_indexed(
    rankers: dict[str, Ranker], tools: list[ToolRecord], make_tool: MakeTool
) -> None:
    gate = Gate()
    async with Retriever(gate, ExactIndex(), rankers, LOW) as one, asyncio.TaskGroup() as group:
        group.create_task(one.index(tools))
        await asyncio.wait_for(gate.entered.wait(), 30)
        found = await one.search(Query(("send an email",)))
        assert found.matches[0].tool.name == "mail__send_email", "words are there at once"
        assert found.degraded == "lexical only: still embedding the tools"
        gate.opened.set()
        await one.index(tools)
        gate.entered.clear()
        gate.opened.clear()
        group.create_task(one.index([make_tool("other", "Other")]))
        await asyncio.wait_for(gate.entered.wait(), 30)
        found = await one.search(Query(("send an email",)))
        assert found.matches[0].tool.name == "mail__send_email", "the last snapshot is served"
        assert found.degraded is None
        gate.opened.set()


async def test_a_search_says_that_some_tools_cannot_be_found_yet(
    rankers: dict[str, Ranker], tools: list[ToolRecord], make_tool: MakeTool
) -> None:
    gate = Gate()
    gate.opened.set()
    berlin = make_tool("world__berlin", "What people in Berlin do")
    seen = VisibleSet(frozenset(tool.name for tool in [*tools, berlin]))
    async with Retriever(gate, ExactIndex(), rankers, LOW) as one, asyncio.TaskGroup() as group:
        await one.index(tools)
        gate.entered.clear()
        gate.opened.clear()
        indexing = group.create_task(one.index([*tools, berlin]))
        await asyncio.wait_for(gate.entered.wait(), 30)
        for visible, of in ((seen, 6), (None, 6), (VisibleSet(frozenset({berlin.name})), 1)):
            found = await one.search(Query(("people in Berlin",)), visible)
            assert found.degraded == f"incomplete: 1 of {of} tools are still being indexed"
        known = VisibleSet(frozenset({"mail__send_email"}))
        assert (await one.search(Query(("send an email",)), known)).degraded is None
        gate.opened.set()
        await indexing
        found = await one.search(Query(("people in Berlin",)), seen)
        assert (found.matches[0].tool.name, found.degraded) == (berlin.name, None)


async def test_an_answer_by_words_alone_says_as_well_which_tools_are_awaited(
    rankers: dict[str, Ranker], tools: list[ToolRecord], make_tool: MakeTool
) -> None:
    gate = Gate()
    more = [*tools, make_tool("world__berlin", "What people in Berlin do")]
    async with Retriever(gate, ExactIndex(), rankers, LOW) as one, asyncio.TaskGroup() as group:
        group.create_task(one.index(tools))
        await asyncio.wait_for(gate.entered.wait(), 30)
        group.create_task(one.index(more))
        await asyncio.sleep(0)  # it waits for its turn
        every = VisibleSet(frozenset(tool.name for tool in more))
        awaited = "incomplete: 1 of 6 tools are still being indexed"
        found = await one.search(Query(("send an email",)), every)
        assert found.degraded == f"lexical only: still embedding the tools; {awaited}"
        nothing = VisibleSet(frozenset({"world__berlin"}))
        found = await one.search(Query(("people in Berlin",)), nothing)
        assert (found.degraded or "").startswith("lexical only: still embedding the tools; incom")
        gate.opened.set()


@pytest.mark.parametrize(("known", "degraded"), [(10, "lexical only"), (1_500, "incomplete")])
async def test_many_new_tools_are_found_by_words_while_they_are_embedded(
    rankers: dict[str, Ranker],
    tools: list[ToolRecord],
    make_tool: MakeTool,
    known: int,
    degraded: str,
) -> None:
    old = [make_tool(f"old_{i}", f"Old thing number {i}") for i in range(known)]
    new = [make_tool(f"new_{i}", f"New thing number {i}") for i in range(300)]
    gate = Gate()
    gate.opened.set()
    async with Retriever(gate, ExactIndex(), rankers, LOW) as one, asyncio.TaskGroup() as group:
        await one.index(old)
        gate.entered.clear()
        gate.opened.clear()
        indexing = group.create_task(one.index([*old, *new, *tools]))
        await asyncio.wait_for(gate.entered.wait(), 30)
        found = await one.search(Query(("send an email",)))
        assert found.matches[0].tool.name == "mail__send_email"
        assert found.degraded == f"{degraded}: still embedding the tools"
        assert found.visible == known + 300 + len(tools)
        gate.opened.set()
        await indexing
        found = await one.search(Query(("send an email",)))
        assert (found.matches[0].tool.name, found.degraded) == ("mail__send_email", None)
        ranking = await one.rank(Query(("old thing number 7",)))
        assert ranking.features.visible == known + 300 + len(tools), "each tool once, none lost"


async def test_a_list_that_is_outdated_is_not_embedded_to_its_end(
    rankers: dict[str, Ranker], tools: list[ToolRecord], make_tool: MakeTool
) -> None:
    many = [make_tool(f"new_{i}", f"New thing number {i}") for i in range(2_000)]
    gate, outdated = Gate(), asyncio.Event()
    async with Retriever(gate, ExactIndex(), rankers, LOW) as one, asyncio.TaskGroup() as group:
        indexing = group.create_task(one.index([*tools, *many], outdated.is_set))
        await asyncio.wait_for(gate.entered.wait(), 110)
        outdated.set()
        gate.opened.set()
        assert (await indexing).given_up
        assert gate.documents < 1_000, "one batch, not all of them"
        assert not (await one.index(tools)).given_up
        found = await one.search(Query(("send an email",)))
        assert (found.matches[0].tool.name, found.degraded) == ("mail__send_email", None)
        assert found.visible == len(tools)
