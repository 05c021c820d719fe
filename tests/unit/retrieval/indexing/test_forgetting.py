"""Words of tools that are gone do not pile up, and what is there is found as before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexing import reading as reading_module
from armory.retrieval.indexing.indexer import Indexer
from armory.retrieval.lexical import bm25 as bm25_module
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.retriever import Retriever
from armory.testing.embedder import HashingEmbedder
from tests.unit.retrieval.conftest import MakeTool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("renamed", [True, False])
async def test_words_of_what_is_gone_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, make_tool: MakeTool, tools: list[ToolRecord], renamed: bool
) -> None:
    monkeypatch.setattr(reading_module, "_GONE", 20)
    indexer = Indexer(None, None)
    words: list[int] = []
    for cycle in range(12):
        passing = [
            make_tool(f"x{cycle if renamed else 0}_{i}", f"wordof{cycle}x{i}") for i in range(40)
        ]
        for now in ([*tools, *passing], tools):
            snapshot, _ = await indexer.run(now)
            assert [record.name for record in snapshot.records] == [tool.name for tool in now]
        words.append(len(snapshot.postings._vocabulary))  # pyright: ignore[reportPrivateUsage]
    assert max(words[6:]) <= max(words[:6])


async def test_made_up_words_that_are_gone_make_room(
    monkeypatch: pytest.MonkeyPatch, make_tool: MakeTool, tools: list[ToolRecord]
) -> None:
    monkeypatch.setattr(bm25_module, "_WORDS", 300)
    monkeypatch.setattr(bm25_module, "_WORDS_EACH", 0)
    indexer = Indexer(None, None)
    with capture_logs() as logs:
        await indexer.run(tools)
    assert logs == []
    for cycle in range(4):
        words = (" ".join(f"word{cycle}x{i}x{j}" for j in range(60)) for i in range(20))
        passing = [make_tool(f"x{i}", text) for i, text in enumerate(words)]
        with capture_logs() as logs:
            await indexer.run([*tools, *passing])
        assert [line["event"] for line in logs] == ["words_left_out"][cycle:], "told at first"
    snapshot, _ = await indexer.run([*tools, make_tool("new", "marzipan")])
    hits = snapshot.postings.search("marzipan")
    assert hits.rows.tolist() == [len(tools)]


async def test_what_stays_is_found_and_not_embedded_again(
    monkeypatch: pytest.MonkeyPatch,
    rankers: dict[str, Ranker],
    make_tool: MakeTool,
    tools: list[ToolRecord],
) -> None:
    monkeypatch.setattr(reading_module, "_GONE", 0)
    async with Retriever(HashingEmbedder(), ExactIndex(), rankers) as one:
        await one.index(tools)
        before = await one.search(Query(("send an email",)))
        await one.index([*tools, *(make_tool(f"x{i}", f"word{i}") for i in range(40))])
        report = await one.index(tools)
        after = await one.search(Query(("send an email",)))
    assert (report.embedded, report.missing) == (0, 0)
    assert [(m.tool.name, m.score) for m in after.matches] == [
        (m.tool.name, m.score) for m in before.matches
    ]


async def test_what_a_server_says_anew_of_itself_counts_at_once(tools: list[ToolRecord]) -> None:
    indexer = Indexer(None, None)
    await indexer.run(tools)
    told = [replace(tools[0], server_about="Marzipan."), *tools[1:]]
    assert told == tools, "no client is told of it"
    snapshot, _ = await indexer.run(told)
    assert snapshot.postings.keyword("marzipan").max() == 0, "its name and description lack it"
    hits = snapshot.postings.search("marzipan")
    assert hits.rows.tolist() == [0]
