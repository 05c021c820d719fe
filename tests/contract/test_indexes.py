"""One suite over every index: the same vectors give the same hits."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from armory.errors import BackendError, ConfigError
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexes.faiss import FaissIndex, FaissView
from armory.retrieval.indexes.qdrant import QdrantIndex
from armory.retrieval.options import QdrantSettings
from armory.retrieval.ports import FloatArray, Row, VectorHits, VectorIndex
from tests.contract.qdrant_server import QdrantServer
from tests.vectors import unit

pytestmark = pytest.mark.anyio
DIM = 16
_SERVER = pytest.mark.skipif(
    "QDRANT_URL" not in os.environ and shutil.which("qdrant") is None,
    reason="QDRANT_URL is not set, and there is no qdrant on the PATH",
)
KINDS = [
    "exact",
    "faiss",
    "faiss-graph",
    "qdrant-memory",
    "qdrant-path",
    "qdrant-http",
    pytest.param("qdrant-server", marks=_SERVER),
    pytest.param("qdrant-int8", marks=_SERVER),
]
Maker = Callable[[], VectorIndex]


class Grown(FaissIndex):
    """FAISS whose graph is there when an update returns."""

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> FaissView:
        view = await super().update(rows, changed)
        await self.settled()
        return view


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path, server: QdrantServer) -> Maker:
    identity = f"test-{uuid.uuid4().hex}"
    kind: str = request.param
    makers: dict[str, Maker] = {
        "exact": ExactIndex,
        "faiss": FaissIndex,
        "faiss-graph": lambda: Grown(hnsw_above=10),
        "qdrant-memory": lambda: QdrantIndex(identity, DIM),
        "qdrant-path": lambda: QdrantIndex(
            identity, DIM, QdrantSettings(path=str(tmp_path / "qdrant"))
        ),
        "qdrant-http": lambda: QdrantIndex(identity, DIM, QdrantSettings(url=server.url)),
        "qdrant-server": lambda: QdrantIndex(
            identity, DIM, QdrantSettings(url=request.getfixturevalue("qdrant_url"))
        ),
        "qdrant-int8": lambda: QdrantIndex(
            identity,
            DIM,
            QdrantSettings(url=request.getfixturevalue("qdrant_url"), quantization="int8"),
        ),
    }
    return makers[kind]


@pytest.fixture
async def index(make: Maker) -> AsyncIterator[VectorIndex]:
    made = make()
    yield made
    await made.aclose()


def catalog(size: int, seed: int = 0) -> tuple[list[Row], dict[str, FloatArray]]:
    rows = [Row(f"t{i}", f"d{seed}-{i}", f"s{i % 5}", f"c{i % 3}") for i in range(size)]
    return rows, {row.key: unit((1 + i % 3, DIM), 1000 * seed + i) for i, row in enumerate(rows)}


def truth(queries: FloatArray, rows: list[Row], vectors: dict[str, FloatArray]) -> FloatArray:
    return np.stack([(queries @ vectors[row.key].T).max(1) for row in rows], axis=1)


def top(hits: VectorHits, k: int) -> list[list[int]]:
    return [hits.rows[np.argsort(-row, kind="stable")[:k]].tolist() for row in hits.cosine]


async def test_finds_the_best_with_exact_cosines_and_statistics(index: VectorIndex) -> None:
    rows, vectors = catalog(60)
    view = await index.update(rows, vectors)
    queries = unit((3, DIM), 7)
    expected = truth(queries, rows, vectors)
    hits = await view.search(queries, 100)
    assert hits.rows.tolist() == list(range(60))
    np.testing.assert_allclose(hits.cosine, expected, atol=2e-6)
    np.testing.assert_allclose(hits.mean, expected.mean(1), atol=1e-5)
    np.testing.assert_allclose(hits.std, expected.std(1), atol=1e-5)


async def test_few_candidates_hold_the_best_of_every_query(index: VectorIndex) -> None:
    rows, vectors = catalog(80)
    view = await index.update(rows, vectors)
    queries = unit((2, DIM), 8)
    expected = truth(queries, rows, vectors)
    hits = await view.search(queries, 5, also=np.array([11, 12]))
    assert top(hits, 5) == np.argsort(-expected, axis=1)[:, :5].tolist()
    assert {11, 12} <= set(hits.rows.tolist())
    np.testing.assert_allclose(hits.cosine, expected[:, hits.rows], atol=2e-6)
    np.testing.assert_allclose(hits.mean, expected.mean(1), atol=1e-5)
    np.testing.assert_allclose(hits.std, expected.std(1), atol=1e-5)


@pytest.mark.parametrize(
    "allowed",
    [[3], [1, 6, 11, 16, 21], list(range(0, 80, 5)), list(range(0, 80, 2)), list(range(79))],
)
async def test_filters_inside_the_search(index: VectorIndex, allowed: list[int]) -> None:
    rows, vectors = catalog(80)
    view = await index.update(rows, vectors)
    queries = unit((2, DIM), 9)
    inside = np.array(allowed)
    expected = truth(queries, rows, vectors)[:, inside]
    hits = await view.search(queries, 4, inside)
    wanted = [inside[np.argsort(-row)[:4]].tolist() for row in expected]
    assert top(hits, 4) == wanted
    assert set(hits.rows.tolist()) <= set(allowed)


async def test_nothing_allowed_and_nothing_stored(index: VectorIndex) -> None:
    view = await index.update([], {})
    assert (await view.search(unit((1, DIM)), 5)).rows.tolist() == []
    rows, vectors = catalog(5)
    view = await index.update(rows, vectors)
    assert (await view.search(unit((1, DIM)), 5, np.array([], np.int64))).rows.tolist() == []


async def test_update_keeps_changes_and_forgets(index: VectorIndex) -> None:
    rows, vectors = catalog(40)
    old = await index.update(rows, vectors)
    assert await index.stored(rows) == {row.key: row.digest for row in rows}
    changed = unit((2, DIM), 99)
    new = [Row("t5", "changed", "s0"), *rows[20:], Row("fresh", "x", "s9")]
    fresh = unit((1, DIM), 98)
    view = await index.update(new, {"t5": changed, "fresh": fresh})
    vectors |= {"t5": changed, "fresh": fresh}
    queries = unit((2, DIM), 3)
    hits = await view.search(queries, 50)
    np.testing.assert_allclose(hits.cosine, truth(queries, new, vectors), atol=2e-6)
    stored = await index.stored(new)
    assert {row.key: stored[row.key] for row in new} == {row.key: row.digest for row in new}
    for _ in range(4):  # until stores that rebuild have rebuilt
        view = await index.update(new[:10], {})
    hits = await view.search(queries, 50)
    np.testing.assert_allclose(hits.cosine, truth(queries, new[:10], vectors), atol=2e-6)
    del old


async def test_an_older_view_still_answers(index: VectorIndex) -> None:
    rows, vectors = catalog(30)
    view = await index.update(rows, vectors)
    more, extra = catalog(50)
    await index.update(more, {row.key: extra[row.key] for row in more[30:]})
    queries = unit((2, DIM), 4)
    hits = await view.search(queries, 4)
    expected = truth(queries, rows, vectors)
    found = top(hits, 1)
    assert found == np.argsort(-expected, axis=1)[:, :1].tolist() or max(map(len, found)) <= 1
    assert set(hits.rows.tolist()) <= set(range(30))


async def test_first_vectors_of_rows(index: VectorIndex) -> None:
    rows, vectors = catalog(10)
    view = await index.update(rows, vectors)
    found = await view.vectors(np.array([7, 2]))
    np.testing.assert_allclose(found, [vectors["t7"][0], vectors["t2"][0]], atol=2e-6)


@pytest.mark.parametrize("fault", ["nan", "dimension", "none", "missing"])
async def test_bad_vectors_are_refused_and_nothing_is_lost(index: VectorIndex, fault: str) -> None:
    rows, vectors = catalog(5)
    view = await index.update(rows, vectors)
    bad = {
        "nan": {"new": np.full((1, DIM), np.nan, np.float32)},
        "dimension": {"new": unit((1, DIM + 1))},
        "none": {"new": np.zeros((0, DIM), np.float32)},
        "missing": dict[str, FloatArray](),
    }[fault]
    with pytest.raises(BackendError, match=r"new|dimension"):
        await index.update([*rows, Row("new", "n")], bad)
    assert len(await index.stored(rows)) == 5
    assert len((await view.search(unit((1, DIM)), 9)).rows) == 5


async def test_a_query_of_another_dimension_is_an_error(index: VectorIndex) -> None:
    rows, vectors = catalog(5)
    view = await index.update(rows, vectors)
    with pytest.raises(BackendError):
        await view.search(unit((1, DIM + 3)), 3)


# the client library leaves its lock file open when it finds the folder locked
@pytest.mark.filterwarnings(
    "ignore:unclosed file", "ignore::pytest.PytestUnraisableExceptionWarning"
)
async def test_a_folder_remembers_and_is_locked(tmp_path: Path) -> None:
    rows, vectors = catalog(12)
    first = QdrantIndex("model", DIM, QdrantSettings(path=str(tmp_path)))
    await first.update(rows, vectors)
    with pytest.raises(ConfigError, match="one process at a time"):
        QdrantIndex("model", DIM, QdrantSettings(path=str(tmp_path)))
    await first.aclose()
    second = QdrantIndex("model", DIM, QdrantSettings(path=str(tmp_path)))
    assert await second.stored(rows) == {row.key: row.digest for row in rows}
    view = await second.update(rows, {})
    queries = unit((1, DIM), 5)
    hits = await view.search(queries, 3)
    expected = truth(queries, rows, vectors)
    assert top(hits, 3) == np.argsort(-expected, axis=1)[:, :3].tolist()
    await second.aclose()
    other = QdrantIndex("another-model", DIM, QdrantSettings(path=str(tmp_path)))
    assert await other.stored(rows) == {}
    await other.aclose()


async def test_an_absent_server_is_a_backend_error() -> None:
    index = QdrantIndex("model", DIM, QdrantSettings(url="http://127.0.0.1:9"), timeout_s=1)
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:9"):
        await index.stored(catalog(1)[0])
    await index.aclose()


async def test_a_graph_grows_in_the_background_and_takes_over() -> None:
    index = FaissIndex(hnsw_above=50)
    rows, vectors = catalog(60)
    view = await index.update(rows, vectors)
    assert not view.held.store.graph, "scanned at first"
    fresh = Row("fresh", "f", "s0")
    later = await index.update([*rows[5:], fresh], {"fresh": unit((2, DIM), 98)})
    vectors["fresh"] = unit((2, DIM), 98)
    queries = unit((3, DIM), 7)
    scanned = await later.search(queries, 5)
    await index.settled()
    assert later.held.store.graph
    hits = await later.search(queries, 5)
    assert top(hits, 5) == top(scanned, 5)
    np.testing.assert_allclose(hits.cosine, truth(queries, list(later.rows), vectors)[:, hits.rows],
                               atol=2e-6)  # fmt: skip
    assert len((await view.search(queries, 100)).rows) == 60, "the older view still answers"
    few = await index.update(rows[5:15], {})
    assert not few.held.store.graph, "a few are scanned again"
    await index.aclose()
