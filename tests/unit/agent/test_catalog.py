"""The catalog as the agent's source: the real engine's own cosines and BM25 scores."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from armory.agent import catalog as catalog_module
from armory.agent.catalog import CatalogSource, tool_text
from armory.agent.chunks import Ask
from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord, fingerprint
from armory.errors import BackendError
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio


def tool(name: str, description: str) -> ToolRecord:
    server, _, original = name.partition("__")
    schema = {"type": "object", "properties": {"branch": {"description": "which branch"}}}
    definition = {"name": original, "description": description, "inputSchema": schema}
    digest = fingerprint(definition)
    return ToolRecord(name, server, original, definition, digest, description, "Builder")


TOOLS = [
    tool("ci__deploy", "Deploy a release to production"),
    tool("ci__rollback", "Roll a release back after an error"),
    tool("mail__send", "Send a message to people"),
    tool("long__story", " ".join(f"word{i}" for i in range(700)) + " zebra"),
]


@pytest.fixture
async def engine() -> AsyncGenerator[Retriever]:
    async with Retriever(HashingEmbedder(), ExactIndex(), make_rankers()) as retriever:
        await retriever.index(TOOLS)
        yield retriever


@pytest.fixture
async def words_only() -> AsyncGenerator[Retriever]:
    async with Retriever(None, None, make_rankers()) as retriever:
        await retriever.index(TOOLS)
        yield retriever


def test_a_tool_s_document_says_name_purpose_and_parameters() -> None:
    assert tool_text(TOOLS[0]) == (
        "Tool ci__deploy, of Builder\nDeploy a release to production\n"
        "Parameters: branch: which branch"
    )


async def test_keyword_scores_are_bm25_and_nothing_matches_nothing(engine: Retriever) -> None:
    source = CatalogSource(engine)
    hits = await source.search("keyword_search", Ask("deploy release", 5))
    assert hits[0].chunk.id == "ci__deploy#0"
    assert hits[0].match is not None
    assert hits[0].match.tool is TOOLS[0]
    features = (await engine.rank(Query(("deploy release",)))).features
    assert hits[0].score == pytest.approx(float(features.subqueries[0].bm25.max()))
    assert all(hit.score > 0 for hit in hits)
    assert list(await source.search("keyword_search", Ask("xylophone qwxz", 5))) == []


async def test_vector_scores_are_cosines_best_first(engine: Retriever) -> None:
    hits = await CatalogSource(engine).search(
        "vector_search", Ask("Deploy a release to production", 3)
    )
    scores = [hit.score for hit in hits]
    assert hits[0].chunk.tool == "ci__deploy"
    assert len(hits) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(-1 <= score <= 1.0001 for score in scores)


async def test_only_what_the_caller_may_see_is_found(engine: Retriever) -> None:
    seen = VisibleSet(frozenset({"ci__rollback"}))
    for search in ("vector_search", "keyword_search"):
        hits = await CatalogSource(engine).search(search, Ask("deploy release", 5, seen))
        assert [hit.chunk.tool for hit in hits] == ["ci__rollback"]


async def test_the_chunk_that_shares_words_stands_for_a_long_tool(engine: Retriever) -> None:
    source = CatalogSource(engine)
    hits = await source.search("vector_search", Ask("zebra word690", 4))
    story = next(hit for hit in hits if hit.chunk.tool == "long__story")
    assert story.chunk.id == "long__story#1"
    assert "zebra" in story.chunk.text


async def test_without_an_embedder_only_words_can_be_searched(words_only: Retriever) -> None:
    source = CatalogSource(words_only)
    assert (await source.search("keyword_search", Ask("deploy", 5)))[0].chunk.tool == "ci__deploy"
    with pytest.raises(BackendError, match="semantic search is not available"):
        await source.search("vector_search", Ask("deploy", 5))


async def test_chunks_are_kept_by_their_size(
    engine: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_module, "_CACHED_BYTES", 40_000)
    source = CatalogSource(engine)
    tools = [replace(TOOLS[0], description=f"{number} {'x ' * 9_000}") for number in range(5)]
    chunks_of = source._chunks_of  # pyright: ignore[reportPrivateUsage]
    found = [chunks_of(tool) for tool in tools]
    assert chunks_of(tools[-1]) is found[-1]
    assert chunks_of(tools[0]) is not found[0]
