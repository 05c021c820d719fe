"""Vectors quantized to int8, and the exact index of a catalog large enough for them."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from armory.errors import BackendError
from armory.retrieval.indexes.base import Segments
from armory.retrieval.indexes.exact import ExactIndex, ExactView
from armory.retrieval.indexes.quantized import (
    QUERY_ZERO,
    QuantizedVectors,
    is_quicker,
    packed_matmul,
)
from armory.retrieval.ports import FloatArray, Row, VectorHits

pytestmark = pytest.mark.anyio
DIM = 48
#: Tools with 1, 2, 3, 1, ... vectors: 12,000 of them.
TOOLS = 6_000


def unit(found: FloatArray) -> FloatArray:
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def normal(count: int, dimension: int, seed: int = 0) -> FloatArray:
    return unit(np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32))


def flat(count: int, dimension: int) -> FloatArray:
    """Every component as large as the largest: what sums of bytes overflow on first."""
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=(count, dimension))
    signs[0], signs[-1] = 1.0, -1.0
    return unit(signs.astype(np.float32))


def sparse(count: int, dimension: int) -> FloatArray:
    """One component, or one that dwarfs the others."""
    found = np.zeros((count, dimension), np.float32)
    found[np.arange(count), np.arange(count) % dimension] = 1
    found[::2] += 0.001
    return unit(found)


def segments(matrix: FloatArray, sizes: list[int]) -> Segments:
    return Segments(matrix, np.array(sizes, np.int64))


def truth(queries: FloatArray, vectors: Segments) -> FloatArray:
    """In double precision."""
    asked = queries.astype(np.float64)
    each = [(asked @ vectors.group(i).astype(np.float64).T).max(1) for i in range(len(vectors))]
    return np.stack(each, axis=1).astype(np.float32)


@pytest.mark.parametrize("dimension", [1, 16, 384, 1024])
@pytest.mark.parametrize("kind", ["normal", "flat", "sparse"])
@pytest.mark.parametrize("asked", [1, 4, 12])
def test_cosines_are_right(kind: str, dimension: int, asked: int) -> None:
    made = {"normal": normal, "flat": flat, "sparse": sparse}[kind]
    given = segments(made(60, dimension), [1, 4, 2, 1, 2] * 6)
    queries = np.concatenate([made(asked, dimension), normal(1, dimension, 9)])
    quantized = QuantizedVectors(given)
    error = np.abs(quantized.best(queries) - truth(queries, given))
    assert (error <= quantized.error_bound + 1e-5).all()


def test_the_error_is_small_in_the_mean() -> None:
    given = segments(normal(2_000, 384, 0), [2] * 1_000)
    queries = normal(20, 384, 1)
    quantized = QuantizedVectors(given)
    error = quantized.best(queries) - truth(queries, given)
    assert float(np.sqrt((error**2).mean())) < 5e-4
    assert abs(float(error.mean())) < 1e-5
    beyond = np.abs(error) > quantized.error_bound
    assert beyond.mean() < 2e-4
    assert quantized.error_bound < 0.003


def test_zero_vectors_have_cosine_zero() -> None:
    matrix = normal(4, 16, 0)
    matrix[1] = 0
    found = QuantizedVectors(segments(matrix, [1, 1, 2])).best(np.zeros((1, 16), np.float32))
    assert found.tolist() == [[0, 0, 0]]
    quantized = QuantizedVectors(segments(matrix, [1, 1, 2]))
    assert quantized.best(normal(1, 16, 3))[0, 1] == 0
    others = QuantizedVectors(segments(matrix[[0, 2, 3]], [1, 2]))
    assert quantized.error_bound == others.error_bound  # zeros make the others no coarser


def test_neither_neighbours_nor_places_change_a_cosine() -> None:
    given = segments(normal(3_000, 64, 0), [1, 2, 3] * 500)
    queries = normal(3, 64, 1)
    found = QuantizedVectors(given).best(queries)
    order = np.random.default_rng(2).permutation(len(given))
    np.testing.assert_array_equal(
        QuantizedVectors(given.take(order)).best(queries), found[:, order]
    )
    few = order[:70]
    np.testing.assert_array_equal(QuantizedVectors(given.take(few)).best(queries), found[:, few])
    np.testing.assert_array_equal(QuantizedVectors(given).best(queries[1:2]), found[1:2])


def test_many_queries_are_multiplied_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given = segments(normal(600, DIM, 0), [1] * 600)
    queries, quantized = normal(7, DIM, 1), QuantizedVectors(given)
    whole = quantized.best(queries)
    monkeypatch.setattr("armory.retrieval.indexes.quantized._AT_ONCE", 1_200)
    np.testing.assert_array_equal(quantized.best(queries), whole)


def test_a_refusal_is_one_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr("onnxruntime.InferenceSession", refuse)
    with pytest.raises(BackendError, match="no memory"):
        packed_matmul(np.zeros((DIM, 3), np.int8))


def test_products_outlive_the_matrix_that_they_were_made_of() -> None:
    matrix = np.random.default_rng(0).integers(-127, 128, (DIM, 300), np.int8)
    rows = np.random.default_rng(1).integers(1, 128, (3, DIM), np.uint8)
    wanted = (rows.astype(np.int32) - QUERY_ZERO) @ matrix.astype(np.int32)
    session, _ = packed_matmul(matrix)
    matrix[:] = 0
    np.testing.assert_array_equal(session.run(None, {"queries": rows})[0], wanted)


def test_bytes_do_not_overflow_where_pairs_are_added_in_16_bits() -> None:
    matrix = np.full((DIM, 40), 127, np.int8)
    matrix[:, ::2] = -127
    rows = np.full((2, DIM), 127, np.uint8)
    found = packed_matmul(matrix)[0].run(None, {"queries": rows})[0]
    wanted = (rows.astype(np.int32) - QUERY_ZERO) @ matrix.astype(np.int32)
    np.testing.assert_array_equal(found, wanted)


def test_few_vectors_and_other_processors_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    many, few = segments(normal(8_000, 8, 0), [8_000]), segments(normal(7_999, 8, 0), [7_999])
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    assert (is_quicker(many), is_quicker(few)) == (True, False)
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert not is_quicker(many)


# a large catalog in the index, whatever the processor


def catalog() -> tuple[list[Row], dict[str, FloatArray], Segments]:
    sizes = [1 + i % 3 for i in range(TOOLS)]
    given = segments(normal(sum(sizes), DIM, 5), sizes)
    rows = [Row(f"t{i}", f"d{i}") for i in range(TOOLS)]
    return rows, {row.key: given.group(i) for i, row in enumerate(rows)}, given


def assert_right(hits: VectorHits, wanted: FloatArray, off: float) -> None:
    """Cosines, those of the best hundred exactly, and statistics."""
    np.testing.assert_allclose(hits.cosine, wanted, atol=off)
    for found, true in zip(hits.cosine, wanted, strict=True):
        best = np.argsort(-found, kind="stable")[:100]
        np.testing.assert_allclose(found[best], true[best], atol=1e-6)
        np.testing.assert_allclose(true[best], -np.sort(-true)[:100], atol=1e-6)
    np.testing.assert_allclose(hits.mean, wanted.mean(1), atol=1e-4)
    np.testing.assert_allclose(hits.std, wanted.std(1), atol=1e-4)


async def test_a_large_catalog_and_subsets_of_it() -> None:
    rows, vectors, given = catalog()
    view = await ExactIndex().update(rows, vectors)
    queries = normal(4, DIM, 6)
    wanted = truth(queries, given)
    also = np.array([3, 17, 5_998])
    hits = await view.search(queries, 200, also=also)
    assert hits.rows.tolist() == list(range(TOOLS))
    off = 1.2 * view.layers.error_bound  # one in some ten thousand goes beyond
    assert_right(hits, wanted, off)
    np.testing.assert_allclose(hits.cosine[:, also], wanted[:, also], atol=1e-6)
    for every in (2, 7, 40):
        allowed = np.arange(1, TOOLS, every)
        hits = await view.search(queries, 200, allowed, also=allowed[:3])
        assert hits.rows.tolist() == allowed.tolist()
        assert_right(hits, wanted[:, allowed], off)
        np.testing.assert_allclose(hits.cosine[:, :3], wanted[:, allowed[:3]], atol=1e-6)
    found = await view.vectors(np.array([5_000, 1]))
    np.testing.assert_array_equal(found, [vectors["t5000"][0], vectors["t1"][0]])


async def test_updates_of_a_large_catalog_leave_no_trace() -> None:
    rows, vectors, given = catalog()
    index = ExactIndex()
    old = await index.update(rows, vectors)
    fresh = {"t9": normal(3, DIM, 70), "new": normal(1, DIM, 71)}
    vectors |= fresh
    later = [Row("new", "n"), *rows[1:9], Row("t9", "other"), *rows[:9:-1]]
    view = await index.update(later, fresh)
    anew = await ExactIndex().update(later, vectors)
    queries = normal(2, DIM, 8)

    async def cosines(of: ExactView) -> FloatArray:
        return (await of.search(queries, 200)).cosine

    np.testing.assert_array_equal(await cosines(view), await cosines(anew))
    asked = np.concatenate([fresh["t9"], fresh["new"]])
    best = (await view.search(asked, 5)).cosine.argmax(1)
    assert [later[i].key for i in best.tolist()] == ["t9", "t9", "t9", "new"]
    off = 1.2 * old.layers.error_bound
    np.testing.assert_allclose(await cosines(old), truth(queries, given), atol=off)


async def test_equal_tools_have_equal_cosines_wherever_they_stand() -> None:
    rows, vectors, _ = catalog()
    same = normal(2, DIM, 3)
    twins = [0, 1, 777, 2_048, TOOLS - 2, TOOLS - 1]
    vectors |= {f"t{i}": same for i in twins}
    view = await ExactIndex().update(rows, vectors)
    hits = await view.search(np.concatenate([same[:1], normal(5, DIM, 8)]), 200)
    for found in hits.cosine[:, twins]:
        assert len(set(found.tolist())) == 1
    assert hits.cosine[0, twins] == pytest.approx(np.ones(len(twins)))
