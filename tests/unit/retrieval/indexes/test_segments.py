"""Vectors side by side: the next state from the last one, and products in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.indexes.base import Segments
from armory.retrieval.ports import FloatArray


def vectors(sizes: list[int], seed: int = 0) -> list[FloatArray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(size, 8)).astype(np.float32) for size in sizes]


@pytest.mark.parametrize(
    "source",
    [[0, 1, 2, 3], [3, 0], [-1, -2, -3], [-2, 1, -1, 3, 0, -3], [2, -1], []],
    ids=str,
)
def test_the_next_state_is_made_of_the_last_and_of_what_is_new(source: list[int]) -> None:
    old, new = vectors([2, 1, 3, 1]), vectors([1, 2, 1], seed=1)
    wanted = [old[i] if i >= 0 else new[-1 - i] for i in source]
    found = Segments.of(old, 8).after(np.array(source, np.int64), Segments.of(new, 8))
    assert len(found) == len(source)
    for i, group in enumerate(wanted):
        np.testing.assert_array_equal(found.group(i), group)


@pytest.mark.parametrize("queries", [1, 2, 5, 9])
def test_blocks_change_nothing(queries: int) -> None:
    groups = vectors([1 + i % 2 for i in range(700)])
    asked = vectors([queries], seed=3)[0] * np.float32(0.01)
    found = Segments.of(groups, 8).best(asked)
    wanted = np.stack([(asked @ group.T).max(1) for group in groups], axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("dimension", [8, 33, 384])
@pytest.mark.parametrize("queries", [1, 5])
def test_equal_vectors_have_equal_cosines_whatever_stands_beside_them(
    dimension: int, queries: int
) -> None:
    rng = np.random.default_rng(4)
    some = rng.normal(size=(90, dimension)).astype(np.float32) / np.float32(dimension)
    some[[7, 8, 64, 89]] = some[3]
    asked = rng.normal(size=(queries, dimension)).astype(np.float32)
    found = Segments(some, np.ones(90, np.int64)).exact(asked)
    np.testing.assert_allclose(found, np.clip(asked @ some.T, -1, 1), atol=1e-5)
    assert (found[:, [7, 8, 64, 89]] == found[:, [3]]).all()
    alone = Segments(some[[64, 5]], np.ones(2, np.int64)).exact(asked[-1:])
    assert (alone == found[-1:, [64, 5]]).all()
