"""Vector stores that go away: at indexing, in mid-search, and back again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.retrieval.indexes.exact import ExactIndex, ExactView
from armory.retrieval.indexes.qdrant import QdrantIndex
from armory.retrieval.options import Limits, QdrantSettings
from armory.retrieval.ports import FloatArray, IntArray, Row, VectorHits
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio
LOW = RetrieverSettings(limits=Limits(threshold=0.0))


class FlakyView:
    def __init__(self, inner: ExactView, owner: FlakyIndex) -> None:
        self._inner = inner
        self._owner = owner

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> VectorHits:
        if self._owner.away:
            raise BackendError("the store is away")
        return await self._inner.search(queries, k, allowed, also)

    async def vectors(self, rows: IntArray) -> FloatArray:
        return await self._inner.vectors(rows)


class FlakyIndex:
    """An index that can be away."""

    def __init__(self) -> None:
        self.away = False
        self.updated = asyncio.Event()
        self._inner = ExactIndex()

    async def stored(self, rows: Sequence[Row]) -> Mapping[str, str]:
        if self.away:
            raise BackendError("the store is away")
        return await self._inner.stored(rows)

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> FlakyView:
        view = FlakyView(await self._inner.update(rows, changed), self)
        self.updated.set()
        return view

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_away_at_indexing_then_back(
    rankers: dict[str, Ranker], tools: list[ToolRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.retrieval.search.recovery.BACKOFF_S", (0.01,))
    index = FlakyIndex()
    index.away = True
    model = HashingEmbedder()
    async with Retriever(model, index, rankers, LOW) as one:
        report = await one.index(tools)
        assert (report.missing, report.problem.why) == (5, "the store is away")
        found = await one.search(Query(("send an email",)))
        assert found.matches[0].tool.name == "mail__send_email"
        assert found.degraded == "lexical only: the store is away"
        index.away = False
        await asyncio.wait_for(index.updated.wait(), 30)
        await one.index(tools)  # waits for the one in progress
        assert (await one.search(Query(("send an email",)))).degraded is None


async def test_away_in_mid_search_then_back(
    rankers: dict[str, Ranker], tools: list[ToolRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("armory.retrieval.retriever.time.monotonic", lambda: now[0])
    index = FlakyIndex()
    async with Retriever(HashingEmbedder(), index, rankers, LOW) as one:
        await one.index(tools)
        index.away = True
        found = await one.search(Query(("send an email",)))
        assert found.degraded == "lexical only: the store is away"
        assert found.matches[0].tool.name == "mail__send_email"
        index.away = False
        now[0] += 1.1
        assert (await one.search(Query(("send an email",)))).degraded is None


async def test_a_qdrant_server_that_is_not_there(
    rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    model = HashingEmbedder()
    index = QdrantIndex(
        model.identity, model.dimension, QdrantSettings(url="http://127.0.0.1:9"), timeout_s=1
    )
    async with Retriever(model, index, rankers, LOW) as one:
        report = await one.index(tools)
        assert "127.0.0.1:9 does not answer" in report.problem.why
        found = await one.search(Query(("send an email",)))
        assert found.matches[0].tool.name == "mail__send_email"


async def test_a_query_vector_that_is_not_finite_costs_the_dense_side_only(
    rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    class Poisoned(HashingEmbedder):
        async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
            raise BackendError("a vector has NaN or infinite components")

    async with Retriever(Poisoned(), ExactIndex(), rankers, LOW) as one:
        await one.index(tools)
        found = await one.search(Query(("send an email",)))
        assert found.matches[0].tool.name == "mail__send_email"
        assert all(np.isfinite(match.score) for match in found.matches)


async def test_a_query_of_another_dimension_costs_the_dense_side_only(
    rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    class Shrunk(HashingEmbedder):
        async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
            return (await super().embed_queries(texts))[:, :8]

    async with Retriever(Shrunk(), ExactIndex(), rankers, LOW) as one:
        await one.index(tools)
        found = await one.search(Query(("send an email",)))
        assert found.degraded == (
            "lexical only: the query has 8 dimensions, the index 64; both need the same model"
        )
