"""The best of many values are those of a stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.fusion import best_of


def values(kind: str, size: int) -> FloatArray:
    rng = np.random.default_rng(size)
    found = rng.normal(size=size).astype(np.float32)
    if kind == "many ties":
        return np.round(found, 1)
    if kind == "few above one":
        return np.where(rng.random(size) < 0.98, np.float32(-0.3), found)
    if kind == "all the same":
        return np.zeros(size, np.float32)
    return np.sort(found) if kind == "sorted" else found


@pytest.mark.parametrize("size", [20, 101, 799, 800, 4_321])
@pytest.mark.parametrize("depth", [20, 100])
@pytest.mark.parametrize("kind", ["random", "many ties", "few above one", "all the same", "sorted"])
def test_as_a_stable_sort(kind: str, depth: int, size: int) -> None:
    given = values(kind, size)
    expected = np.argsort(-given, kind="stable")[:depth]
    np.testing.assert_array_equal(best_of(given, depth), expected)
