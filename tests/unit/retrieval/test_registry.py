"""Names to parts, absent extras, and the shipped rankers over a small catalog."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.errors import ConfigError
from armory.retrieval.names import RANKERS
from armory.retrieval.ports import FloatArray
from armory.retrieval.ranking.cross_encoder import CrossEncoder
from armory.retrieval.ranking.rerank import reranked
from armory.retrieval.registry import (
    RetrievalOptions,
    build_retriever,
    load_calibration,
    make_embedder,
    make_index,
    make_rankers,
    provider_of,
)
from armory.testing.embedder import HashingEmbedder


def test_every_ranker_of_the_configuration_is_there() -> None:
    assert {name: ranker.name for name, ranker in make_rankers().items()} == {
        name: name for name in RANKERS
    }


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("embedded", "embedded"),
        ("text-embedding-3-large", "openai"),
        ("all-MiniLM-L6-v2", "fastembed"),
        ("BAAI/bge-large-en-v1.5", "fastembed"),
    ],
)
def test_providers_by_name(model: str, provider: str) -> None:
    assert provider_of(model) == provider
    assert provider_of(model, "openai") == "openai"


def test_absent_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("faiss", "fastembed", "fastembed.rerank.cross_encoder"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"armory-mcp-gateway\[faiss\]"):
        make_index("faiss", HashingEmbedder())
    with pytest.raises(ConfigError, match=r"armory-mcp-gateway\[rerank\]"):
        CrossEncoder("x")


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown index 'magic'; one of exact, faiss, qdrant"):
        make_index("magic", HashingEmbedder())
    with pytest.raises(ConfigError, match="has no cross-encoder 'nonsense'; expected one"):
        CrossEncoder("nonsense")
    assert make_embedder("none") is None
    assert make_index("exact", None) is None


def test_a_calibration_file(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    assert load_calibration(path) is None
    assert load_calibration(None) is None
    path.write_text("{broken")
    with pytest.raises(ConfigError, match="not JSON"):
        load_calibration(path)


@pytest.mark.anyio
@pytest.mark.parametrize("ranker", ["relevance", "hybrid", "semantic", "lexical"])
async def test_the_shipped_parts_find_the_tool(
    tools: list[ToolRecord], tmp_path: Path, ranker: str
) -> None:
    options = RetrievalOptions(cache_dir=str(tmp_path))
    async with build_retriever(options) as retriever:
        await retriever.index(tools)
        query = Query(("what time is it in Tokyo right now",), ranker=ranker, threshold=0.0)
        found = await retriever.search(query, explain=True)
        assert found.ranking[0].tool.server == "clock"
        assert found.degraded is None
        assert all(0 <= m.score <= 1 and 0 <= m.probability <= 1 for m in found.ranking)
        assert all(m.reason for m in found.ranking)


@pytest.mark.anyio
async def test_reranking_sorts_the_head_only() -> None:
    class Lengths:
        async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
            return np.array([len(text) for text in texts], np.float32)

    order = np.array([4, 2, 0, 1])
    found = await reranked(Lengths(), ["q", "r"], ["a", "ccc", "bb"], order)
    assert found.tolist() == [2, 0, 4, 1]


@pytest.mark.anyio
@pytest.mark.parametrize("count", [0, 2, 4])
async def test_a_reranker_that_scores_fewer_or_more_costs_no_tool(count: int) -> None:
    class Wrong:
        async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
            return np.arange(count, dtype=np.float32)

    order = np.array([4, 2, 0, 1])
    assert (await reranked(Wrong(), ["q"], ["a", "ccc", "bb"], order)).tolist() == [4, 2, 0, 1]
