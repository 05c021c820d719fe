"""The quick sort of scores is the stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.scoring.ordering import descending

CASES = {
    "random": np.random.default_rng(0).normal(size=3_000),
    "many ties": np.round(np.random.default_rng(1).normal(size=3_000), 1),
    "all equal": np.zeros(7),
    "edges": np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-40, -1e-40]),
    "one": np.array([0.5]),
    "none": np.zeros(0),
}


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_same_as_a_stable_sort(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    scores = values.astype(np.float32)
    np.testing.assert_array_equal(descending(scores), np.argsort(-scores, kind="stable"))
