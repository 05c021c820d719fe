"""A ranker, an index and an embedder of one's own: one file and one line each.

The parts stand in this file. The lines are those that `retrieval/names.py` would hold; nothing else
knows of them, and configuration, queries and searches take them by name.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from armory.config.load import load_text
from armory.config.schema import schema_text
from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.errors import ConfigError
from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.features import CandidateFeatures
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.names import EMBEDDERS, INDEXES, RANKERS
from armory.retrieval.options import PartOptions
from armory.retrieval.ports import Embedder
from armory.retrieval.rankers.base import RankSettings, Scores
from armory.runtime.retrieval import open_retriever
from armory.storage.cache import MemoryCache
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio

CONFIG = """
tool_rag:
  embedding_provider: hashing
  embedding_model: any-name
  index: listed
  ranker: alphabetical
  similarity_threshold: 0.0
"""


class AlphabeticalRanker:
    """Tools by name, whatever is asked for."""

    name = "alphabetical"

    def works_without_vectors(self, tools: int) -> bool:
        return True

    def rank(self, features: CandidateFeatures, settings: RankSettings) -> Scores:
        names = [record.original_name for record in features.records]
        order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
        score = np.empty(len(names), np.float32)
        score[order] = np.linspace(1, 0.1, len(names))
        return Scores(order, score, score, score)

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        return f"{features.records[position].original_name} comes where its name stands."


class ListedIndex(ExactIndex):
    """The exact index under another name."""


def open_index(embedder: Embedder, options: PartOptions) -> ListedIndex:
    return ListedIndex()


def open_embedder(model: str, options: PartOptions) -> HashingEmbedder:
    return HashingEmbedder(32, identity=f"hashing:{model}")


@pytest.fixture
def own_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RANKERS, "alphabetical", f"{__name__}:AlphabeticalRanker")
    monkeypatch.setitem(INDEXES, "listed", f"{__name__}:open_index")
    monkeypatch.setitem(EMBEDDERS, "hashing", f"{__name__}:open_embedder")


@pytest.mark.usefixtures("own_parts")
async def test_one_line_each_is_enough(tools: list[ToolRecord], tmp_path: Path) -> None:
    retriever = open_retriever(load_text(CONFIG, path=tmp_path / "armory.yaml", environ={}))
    assert retriever is not None
    async with retriever:
        await retriever.index(tools)
        assert retriever.embedder is not None
        assert retriever.embedder.identity == "hashing:any-name"
        ranking = await retriever.rank(Query(("send an email",)))
        names = [ranking.record(i).original_name for i in ranking.order.tolist()]
        assert names == sorted(names)
        assert ranking.features.dense
        found = await retriever.search(Query(("send an email",), ranker="semantic"))
        assert found.matches[0].tool.original_name == "send_email"
        found = await retriever.search(Query(("send an email",), ranker="alphabetical", top_k=1))
        assert found.matches[0].reason == "convert_time comes where its name stands."


@pytest.mark.parametrize("provider", ["openai", "hashing"])
@pytest.mark.usefixtures("own_parts")
async def test_replicas_share_the_vectors_of_queries_that_an_api_computed(
    provider: str, tools: list[ToolRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EMBEDDERS, "openai", f"{__name__}:open_embedder")
    text = CONFIG.replace("hashing", provider) + "  openai: {base_url: http://127.0.0.1:9/v1}\n"
    loaded = load_text(text, path=tmp_path / "armory.yaml", environ={})
    shared, asked = MemoryCache(), list[int]()
    for _ in range(2):
        retriever = open_retriever(loaded, shared=shared)
        assert retriever is not None
        async with retriever:
            await retriever.index(tools)
            await retriever.rank(Query(("send an email",)))
            embedder = retriever.embedder
            assert isinstance(embedder, CachedEmbedder)
            assert isinstance(embedder.inner, HashingEmbedder)
            asked.append(embedder.inner.queries)
    first, second = asked
    assert first > 0
    assert second == (0 if provider == "openai" else first)


@pytest.mark.usefixtures("own_parts")
def test_they_are_in_the_schema() -> None:
    text = schema_text()
    for name in ("alphabetical", "listed", "hashing"):
        assert f'"{name}"' in text


@pytest.mark.parametrize(
    ("key", "value"), [("ranker", "alphabetical"), ("index", "listed"), ("embedding_provider", "x")]
)
def test_without_its_line_a_name_is_refused_with_those_that_there_are(
    key: str, value: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"tool_rag.{key}") as refused:
        load_text(f"tool_rag:\n  {key}: {value}\n", path=tmp_path / "armory.yaml", environ={})
    known = {"ranker": "multi_factor", "index": "qdrant", "embedding_provider": "fastembed"}
    assert known[key] in str(refused.value)
