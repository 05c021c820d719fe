"""Retrieval where the embedding model fails, hangs or is late: words answer meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.options import Limits
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio
MakeTool = Callable[..., ToolRecord]
LOW = RetrieverSettings(limits=Limits(threshold=0.0))


async def test_a_query_embedding_that_hangs_is_given_up(
    rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    class Hanging(HashingEmbedder):
        async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
            await asyncio.Event().wait()
            raise AssertionError

    settings = RetrieverSettings(limits=Limits(threshold=0.0), dense_timeout_s=0.05)
    async with Retriever(Hanging(), ExactIndex(), rankers, settings) as one:
        await one.index(tools)
        found = await one.search(Query(("send an email",)))
        assert found.degraded == "lexical only: no answer within 0.05 s"
        assert found.matches[0].tool.name == "mail__send_email"


async def test_a_failing_model_at_indexing_recovers_by_itself(
    rankers: dict[str, Ranker], tools: list[ToolRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.retrieval.search.recovery.BACKOFF_S", (0.01,))
    embedded = asyncio.Event()

    class Watched(HashingEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
            found = await super().embed_documents(texts)
            embedded.set()
            return found

    model = Watched()
    model.failure = BackendError("no key")
    async with Retriever(model, ExactIndex(), rankers, LOW) as one:
        report = await one.index(tools)
        assert (report.missing, report.problem.why) == (5, "no key")
        found = await one.search(Query(("send an email",)))
        assert found.degraded is not None
        assert "no key" in found.degraded
        model.failure = None
        await asyncio.wait_for(embedded.wait(), 30)
        await one.index(tools)  # waits for the one in progress
        found = await one.search(Query(("send an email",)))
        assert found.degraded is None
        assert found.matches[0].signals["raw"] > 0.5


async def test_tools_without_vectors_are_found_by_words(
    rankers: dict[str, Ranker], tools: list[ToolRecord], make_tool: MakeTool
) -> None:
    model = HashingEmbedder()
    async with Retriever(model, ExactIndex(), rankers, LOW) as one:
        await one.index(tools)
        model.failure = BackendError("quota")
        fresh = make_tool("translate", "Translate words into Hungarian", "aaa")
        report = await one.index([fresh, *tools])
        assert report.missing == 1
        model.failure = None
        found = await one.search(Query(("translate words into hungarian",)))
        assert found.matches[0].tool.name == "aaa__translate"
        assert found.degraded == "incomplete: quota"
        assert len(found.matches) == 6
        visible = VisibleSet(frozenset(["aaa__translate", "mail__send_email"]))
        found = await one.search(Query(("send an email to translate",)), visible)
        assert {m.tool.name for m in found.matches} == visible.names
