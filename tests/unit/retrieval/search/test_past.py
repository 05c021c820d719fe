"""What memory of use says, beside the tools that an index found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.feedback.vectors import FeedbackLimits, FeedbackVectors
from armory.retrieval.registry import RetrievalOptions, build_retriever
from armory.retrieval.search.candidates import Experience

pytestmark = pytest.mark.anyio


async def test_a_remembered_tool_is_found_by_an_index_that_returns_only_the_best(
    make_tool: Callable[..., ToolRecord],
) -> None:
    tools = [make_tool(f"note_{i}", f"Write note number {i} into the diary") for i in range(400)]
    tools.append(make_tool("zebra", "Stripes of an animal"))
    memory = FeedbackVectors(FeedbackLimits(floor=1.0))
    options = RetrievalOptions(index="faiss")
    async with build_retriever(options, experience=Experience(memory=memory)) as retriever:
        await retriever.index(tools)
        past = ["jot it down for me", "please jot this down", "jot that down somewhere"]
        for text, vector in zip(past, await retriever.embed(past), strict=True):
            memory.learn(text, vector, "srv__zebra")
        query = Query(texts=("jot down what I say",))
        seen = (await retriever.rank(query)).features
        names = [record.name for record in seen.records]
        assert "srv__zebra" in names
        assert seen.subqueries[0].past is not None
        assert seen.subqueries[0].past[names.index("srv__zebra")] > 2
        hidden = VisibleSet(frozenset(tool.name for tool in tools[:-1]))
        unseen = (await retriever.rank(query, hidden)).features
        assert "srv__zebra" not in [record.name for record in unseen.records]
        assert np.isfinite(seen.subqueries[0].past).all()


async def test_a_misspelt_query_is_remembered_as_it_is_searched_for(
    make_tool: Callable[..., ToolRecord],
) -> None:
    memory = FeedbackVectors(FeedbackLimits(floor=1.0))
    tools = [make_tool("search", "Search the web"), make_tool("read", "Read a web page")]
    options = RetrievalOptions()
    async with build_retriever(options, experience=Experience(memory=memory)) as retriever:
        await retriever.index(tools)
        asked = "serach the wbe for cats"
        for vector in await retriever.embed([asked]):
            memory.learn(asked, vector, "srv__search")
        used = (await retriever.rank(Query((asked,)))).features.subqueries[0].used
    assert used is not None
    assert used.max() > 0.999
