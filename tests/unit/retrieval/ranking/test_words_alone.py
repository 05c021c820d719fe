"""Words alone: obvious hits are listed, what shares no word is not, whoever was asked to rank."""

from __future__ import annotations

import numpy as np
import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.ranking.cut import plain_hits
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from tests.unit.retrieval.conftest import MakeTool

pytestmark = pytest.mark.anyio

SUBJECTS = ["invoice", "ticket", "customer", "branch", "recipe", "sensor", "flight", "parcel"]
VERBS = ["Archive", "Rename", "Approve", "Duplicate", "Validate", "Compress", "Rotate", "Export"]


def crowd(make_tool: MakeTool, size: int) -> list[ToolRecord]:
    """Tools that have nothing to do with mail."""
    return [
        make_tool(
            f"{VERBS[i % 8].lower()}_{SUBJECTS[i // 8 % 8]}_{i}",
            f"{VERBS[i % 8]} the {SUBJECTS[i // 8 % 8]} of account {i}",
            server=f"s{i % 40}",
        )
        for i in range(size)
    ]


async def listed(tools: list[ToolRecord], text: str, ranker: str | None = None) -> list[str]:
    async with Retriever(None, None, make_rankers()) as retriever:
        await retriever.index(tools)
        found = await retriever.search(Query((text,), ranker=ranker))
        return [match.tool.name for match in found.matches]


@pytest.mark.parametrize("size", [20, 999, 6_000])
async def test_the_obvious_tool_among_many(make_tool: MakeTool, size: int) -> None:
    mail = make_tool("send_email", "Send an email to somebody", server="mail")
    assert "mail__send_email" in await listed([*crowd(make_tool, size), mail], "send an email")


async def test_a_hundred_copies_of_the_obvious_tool(make_tool: MakeTool) -> None:
    copies = [
        make_tool("send_email", "Send an email to somebody", server=f"mail-{i}") for i in range(100)
    ]
    found = await listed([*crowd(make_tool, 900), *copies], "send an email")
    assert len(found) >= 3
    assert all(name.endswith("__send_email") for name in found)


async def test_a_question_in_a_large_catalog_is_not_refused(make_tool: MakeTool) -> None:
    clock = make_tool("current_time", "Tell the time of a city", server="clock")
    found = await listed([*crowd(make_tool, 10_000), clock], "what time is it in Tokyo")
    assert found == ["clock__current_time"]


async def test_nothing_in_common_is_not_listed(make_tool: MakeTool) -> None:
    assert await listed(crowd(make_tool, 100), "solve a crossword") == []


@pytest.mark.parametrize("ranker", ["lexical", "relevance"])
@pytest.mark.parametrize("size", [1, 3, 100])
async def test_nothing_in_common_has_no_score(make_tool: MakeTool, size: int, ranker: str) -> None:
    """What is shown as the nearest, whatever its score, would else seem to pass any threshold."""
    async with Retriever(None, None, make_rankers()) as retriever:
        await retriever.index(crowd(make_tool, size))
        other = await retriever.search(Query(("solve a crossword",), ranker=ranker))
        ranking = await retriever.rank(Query(("archive a crossword",), ranker=ranker))
    assert [match.score for match in other.nearest] == [0.0] * min(size, 5)
    assert other.top_score == 0.0
    scores = {
        ranking.record(i).original_name: float(ranking.scores.score[i])
        for i in ranking.order.tolist()
    }
    assert {name for name, score in scores.items() if score > 0} == {
        name for name in scores if name.startswith("archive_")
    }


@pytest.mark.parametrize("ranker", sorted(make_rankers()))
async def test_every_ranker_has_an_answer_without_an_embedder(
    make_tool: MakeTool, ranker: str
) -> None:
    mail = make_tool("send_email", "Send an email to somebody", server="mail")
    assert "mail__send_email" in await listed(
        [*crowd(make_tool, 50), mail], "send an email", ranker
    )


async def test_a_threshold_of_the_query_is_kept(make_tool: MakeTool) -> None:
    copies = [make_tool("send_email", "Send an email", server=f"mail-{i}") for i in range(100)]
    async with Retriever(None, None, make_rankers()) as retriever:
        await retriever.index(copies)
        assert (await retriever.search(Query(("send an email",)))).matches
        strict = await retriever.search(Query(("send an email",), threshold=0.999))
        assert strict.matches == ()


async def test_of_equals_the_one_that_is_called_like_the_query_comes_first(
    make_tool: MakeTool,
) -> None:
    tools = [
        make_tool("send_message", "Send an email"),
        make_tool("send_email", "Send a message"),
        make_tool("read_news", "Read it aloud"),
    ]
    for order in (tools, tools[::-1]):
        async with Retriever(None, None, make_rankers()) as retriever:
            await retriever.index(order)
            ranking = await retriever.rank(Query(("email",), ranker="lexical"))
            first, second, _ = ranking.order.tolist()
            assert ranking.record(first).original_name == "send_email"
            assert ranking.record(second).original_name == "send_message"
            assert ranking.scores.raw[first] == ranking.scores.raw[second]
            assert ranking.scores.probability[first] >= ranking.scores.probability[second]


def test_plain_hits_are_few_and_near_the_best() -> None:
    share = np.array([0.1, 0.9, 0.5, 0.6, 0.0], np.float32)
    assert plain_hits(share, np.array([1, 3, 2, 0, 4])).tolist() == [0, 1]
    assert plain_hits(share, np.array([0, 4])).tolist() == []
    assert plain_hits(np.ones(9, np.float32), np.arange(9)).tolist() == [0, 1, 2, 3, 4]
    assert plain_hits(share, np.zeros(0, np.int64)).tolist() == []


def test_who_stands_in() -> None:
    rankers = make_rankers()
    able = {
        name: [n for n in (1, 5_000, 5_001) if ranker.works_without_vectors(n)]
        for name, ranker in rankers.items()
    }
    every = [1, 5_000, 5_001]
    assert able == {
        "relevance": [1, 5_000], "hybrid": [], "semantic": [], "lexical": every, "multi_factor": [],
    }  # fmt: skip


async def test_who_asks_for_vectors_where_there_are_none_is_told(make_tool: MakeTool) -> None:
    tools = [make_tool("send_email", "Send an email"), make_tool("read_file", "Read a file")]
    async with Retriever(None, None, make_rankers()) as retriever:
        await retriever.index(tools)
        for ranker in make_rankers():
            found = await retriever.search(Query(("send an email",), ranker=ranker))
            assert found.matches[0].tool.original_name == "send_email"
            lost = f"lexical only: {ranker} needs vectors, there is no embedding model"
            assert found.degraded == (None if ranker in ("relevance", "lexical") else lost)
