"""The value that the greatest of many reach."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.greatest import GROUPS, cutoff


@pytest.mark.parametrize("count", [6, 39, 41, 1_000, 15_001])
@pytest.mark.parametrize("kinds", [3, 10_000])
def test_enough_reach_it_and_not_many_more(count: int, kinds: int) -> None:
    values = np.random.default_rng(count).integers(0, kinds, (3, count)).astype(np.float32)
    bars = cutoff(values, 5)
    assert bars.shape == (3,)
    for row, least in zip(values, bars, strict=True):
        assert cutoff(row, 5) == least
        assert np.count_nonzero(row >= least) >= 5
        assert np.count_nonzero(row > least) <= 5 * GROUPS * 4


def test_of_few_it_is_the_one_at_that_place() -> None:
    assert cutoff(np.array([3, 1, 4, 1, 5], np.float32), 2) == 4
