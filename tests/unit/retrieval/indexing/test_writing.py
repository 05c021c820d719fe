"""Example queries that a model writes: behind the indexing, patient with the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexing import writing
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexer, Indexing
from armory.retrieval.indexing.writing import content_key
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.testing.embedder import HashingEmbedder
from armory.testing.waiting import until

CLOCK = "clock__get_time"
pytestmark = pytest.mark.anyio


class Generator:
    """Writes one query a tool; fails for some when told."""

    identity = "generator-1"

    def __init__(self, fails: Callable[[ToolRecord], bool] | None = None) -> None:
        self.asked: list[str] = []
        self.fails = fails
        self.may = asyncio.Event()
        self.may.set()

    async def generate(self, tool: ToolRecord) -> Sequence[str]:
        await self.may.wait()
        self.asked.append(tool.name)
        if self.fails is not None and self.fails(tool):
            raise BackendError("the model is away")
        return [text_of(tool)]


def text_of(tool: ToolRecord) -> str:
    return f"someone asks for {tool.original_name}"


class Written:
    """Notes that queries were written."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def indexer_of(
    writer: Generator, written: Callable[[], None] | None, cache: DocumentCache | None = None
) -> Indexer:
    indexing = Indexing("synthetic_queries", cache, writer, on_written=written)
    return Indexer(HashingEmbedder(), ExactIndex(), indexing)


async def test_nothing_waits_for_the_model(tools: list[ToolRecord]) -> None:
    """Templates serve until its queries are there; then those of the same tools are searched."""
    writer, told = Generator(), asyncio.Event()
    writer.may.clear()
    indexing = Indexing("synthetic_queries", generator=writer, on_written=told.set)
    async with Retriever(
        HashingEmbedder(), ExactIndex(), make_rankers(), indexing=indexing
    ) as retriever:
        await retriever.index(tools)
        query = Query(("what time is it in Tokyo right now",), threshold=0.0)
        assert (await retriever.search(query)).matches
        assert retriever.examples(tools[0]) == ()
        writer.may.set()
        async with asyncio.timeout(10):
            await told.wait()
        report = await retriever.index(tools)
        assert report.embedded >= len(tools)
        assert retriever.examples(tools[0]) == (text_of(tools[0]),)


async def test_written_queries_are_kept_and_embedded(tools: list[ToolRecord]) -> None:
    writer, told = Generator(), Written()
    indexer = indexer_of(writer, told)
    await indexer.run(tools)
    await until(lambda: told.times == 1)
    assert sorted(writer.asked) == sorted(tool.name for tool in tools)
    await indexer.run(tools)
    assert "someone asks for get_time" in indexer.document(CLOCK).texts
    await indexer.run(tools[1:])
    assert indexer.examples(tools[0]) == ()
    await indexer.run(tools)
    assert indexer.examples(tools[0]) == (text_of(tools[0]),)
    assert indexer.examples(replace(tools[0], description="other")) == ()
    assert len(writer.asked) == len(tools), "kept by content"
    assert content_key(tools[0]) != content_key(tools[1])
    await indexer.aclose()


async def test_a_tool_that_fails_costs_no_other_its_queries(
    tools: list[ToolRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for again, though nothing of the catalog changes."""
    monkeypatch.setattr(writing, "PAUSES_S", (0.01,))
    failed = tools[0].name
    writer, told = Generator(lambda tool: tool.name == failed), Written()
    indexer = indexer_of(writer, told)
    await indexer.run(tools)
    await until(lambda: writer.asked.count(failed) >= 3)
    assert set(writer.asked) == {tool.name for tool in tools}
    assert len(writer.asked) - writer.asked.count(failed) == len(tools) - 1
    writer.fails = None
    await until(lambda: told.times == 2)
    await indexer.run(tools)
    assert indexer.examples(tools[0]) == (text_of(tools[0]),)
    await indexer.aclose()


async def test_a_model_that_is_away_is_left_in_peace(tools: list[ToolRecord]) -> None:
    writer = Generator(lambda _: True)
    indexer = indexer_of(writer, Written())
    await indexer.run(tools)
    await until(lambda: len(writer.asked) == writing.IN_A_ROW)
    await indexer.run(tools)  # nothing new: the pause goes on
    assert len(indexer.document(CLOCK).texts) > 1, "templates"
    await indexer.run([replace(tools[0], description="Another tool."), *tools[1:]])
    await until(lambda: len(writer.asked) == 2 * writing.IN_A_ROW)
    await indexer.aclose()


async def test_what_another_process_wrote_is_read(
    tools: list[ToolRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`armory queries` beside a gateway whose own model is away."""
    monkeypatch.setattr(writing, "PAUSES_S", (0.01,))
    writer, told = Generator(lambda _: True), Written()
    indexer = indexer_of(writer, told, DocumentCache(tmp_path / "vectors.db"))
    await indexer.run(tools)
    await until(lambda: len(writer.asked) >= writing.IN_A_ROW)
    with closing(DocumentCache(tmp_path / "vectors.db")) as other:
        for tool in tools:
            other.put_queries(writer.identity, content_key(tool), [text_of(tool)])
    await until(lambda: told.times > 0)
    await indexer.run(tools)
    assert {indexer.examples(tool) for tool in tools} == {(text_of(tool),) for tool in tools}
    await indexer.aclose()


async def test_a_command_asks_no_model_and_reads_what_is_kept(tools: list[ToolRecord]) -> None:
    writer, cache = Generator(), DocumentCache(None)
    cache.put_queries(writer.identity, content_key(tools[0]), ["kept"])
    indexer = indexer_of(writer, None, cache)
    await indexer.run(tools)
    assert indexer.examples(tools[0]) == ("kept",)
    assert writer.asked == []
    await indexer.aclose()
