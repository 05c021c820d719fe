"""Vectors in two bytes a component, and what they say of tools that were not scored."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.indexes.background import SAMPLE, Background
from armory.retrieval.indexes.base import Segments, statistics
from armory.retrieval.indexes.compact import Compact
from armory.retrieval.ports import FloatArray

DIM = 96


def unit(count: int, seed: int = 0, dimension: int = DIM) -> FloatArray:
    found = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def groups(count: int, seed: int = 0) -> list[FloatArray]:
    """One to three vectors a tool."""
    return [unit(1 + (i + seed) % 3, seed * 10_000 + i) for i in range(count)]


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("dimension", [8, 384, 3072])
def test_a_cosine_is_off_by_the_rounding_of_its_vector(queries: int, dimension: int) -> None:
    found = [unit(1 + i % 3, i, dimension) for i in range(1_500)]
    asked = unit(queries, 77_777, dimension)
    off = Compact.of(found, dimension).best(asked) - Segments.of(found, dimension).best(asked)
    assert np.abs(off).max() < 0.0001


def test_zero_vectors_have_no_cosine() -> None:
    nothing = [np.zeros((2, DIM), np.float32), unit(1)]
    found = Compact.of(nothing, DIM).best(np.concatenate([unit(1), np.zeros((1, DIM), np.float32)]))
    np.testing.assert_allclose(found, [[0, 1], [0, 0]], atol=0.0001)


@pytest.mark.parametrize(
    "source",
    [[0, 1, 2, 3], [0, 1, 6, 3], [1, 0, 2, 3], [6, 0, 5], [4], [], [3, 3], [0, 4, 1, 2, 3]],
    ids=str,
)
def test_the_next_state_is_as_if_made_of_its_vectors(source: list[int]) -> None:
    old, new = groups(4), groups(3, seed=1)
    both, asked = [*old, *new], unit(3, 9)
    found = Compact.of(old, DIM).after(np.array(source, np.int64), Compact.of(new, DIM))
    wanted = Compact.of([both[i] for i in source], DIM)
    assert len(found) == len(source)
    np.testing.assert_array_equal(found.best(asked), wanted.best(asked))
    for place, i in enumerate(source):
        np.testing.assert_array_equal(found.group(place), Compact.of([both[i]], DIM).group(0))


def test_a_state_may_begin_and_end_with_nothing() -> None:
    nothing, some = Compact.of((), DIM), Compact.of(groups(2), DIM)
    first = nothing.after(np.arange(2), some)
    np.testing.assert_array_equal(first.best(unit(2)), some.best(unit(2)))
    assert first.after(np.zeros(0, np.int64), nothing).best(unit(2)).shape == (2, 0)


def test_the_sample_is_stable_and_bounded() -> None:
    keys = [f"server__tool_{i}" for i in range(SAMPLE + 50)]
    chosen = Background.choose(keys).tolist()
    assert chosen == sorted(set(chosen))
    assert len(chosen) == SAMPLE
    turned = [keys[::-1][i] for i in Background.choose(keys[::-1]).tolist()]
    assert set(turned) == {keys[i] for i in chosen}
    assert Background.choose(keys[:10]).tolist() == list(range(10))


@pytest.mark.parametrize("some", [False, True], ids=["all", "some allowed"])
def test_where_all_are_known_every_tool_comes_along(some: bool) -> None:
    vectors, asked = groups(600), unit(2, 5)
    exact = Segments.of(vectors, DIM).best(asked)
    allowed = np.arange(0, 600, 2) if some else None
    every = np.arange(600) if allowed is None else allowed
    rows = every[10:60]
    known = exact[:, rows].copy()
    known[:, 7] = np.nan
    back = Background(np.arange(600), Compact.of(vectors, DIM), 600)
    hits = back.around(back.sample(asked, allowed), rows, known)
    np.testing.assert_array_equal(hits.rows, rows)
    found = hits.filled()
    np.testing.assert_array_equal(found.rows, every)
    assert found.sample is None
    sure = np.delete(rows, 7)
    places = np.searchsorted(every, sure)
    np.testing.assert_array_equal(found.cosine[:, places], exact[:, sure])
    np.testing.assert_allclose(found.cosine, exact[:, every], atol=0.0001)
    for one, wanted in zip((found.mean, found.std), statistics(exact[:, every]), strict=True):
        np.testing.assert_allclose(one, wanted, atol=1e-5)


def test_where_only_some_are_known_they_stand_for_all() -> None:
    vectors, asked = groups(600), unit(2, 5)
    exact = Segments.of(vectors, DIM).best(asked)
    chosen, rows = np.arange(0, 600, 3), np.arange(20)
    known = exact[:, :20].copy()
    known[0, 3] = np.nan
    back = Background(chosen, Compact.of([vectors[i] for i in chosen.tolist()], DIM), 600)
    found = back.around(back.sample(asked, np.arange(500)), rows, known)
    assert found.sample is not None
    assert found.filled() is found
    np.testing.assert_array_equal(found.sample.rows, np.arange(0, 500, 3))
    np.testing.assert_array_equal(found.rows, rows)
    assert found.cosine[0, 3] == found.mean[0]
    few = back.around(back.sample(asked, np.arange(60)), rows, known)
    assert few.sample is not None
    assert len(few.sample.rows) == 200
