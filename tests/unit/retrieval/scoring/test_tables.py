"""Signals in one matrix, and finding the best of many."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.rankers.fusion import best_of
from armory.retrieval.scoring.calibration import Linear
from armory.retrieval.scoring.ordering import descending
from armory.retrieval.scoring.tables import SignalTable, SparseSignals


def table() -> SignalTable:
    return SignalTable.of({"a": np.array([0.5, 0.25]), "b": [True, False]}, 2)


def test_a_table_weighs_as_the_separate_arrays_do() -> None:
    linear = Linear({"b": 3.0, "a": 2.0, "absent": 9.0}, 1.0)
    whole, parts = linear.over(table(), 2), linear.over(dict(table()), 2)
    assert whole.tolist() == parts.tolist() == [5.0, 1.5]


def test_equal_signals_weigh_the_same_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    names = [f"s{i}" for i in range(40)]
    column = rng.normal(size=40).astype(np.float32)
    found = SignalTable.of({n: np.full(101, v) for n, v in zip(names, column, strict=True)}, 101)
    weights = dict(zip(names, rng.normal(size=40).tolist(), strict=True))
    assert len(set(Linear(weights).over(found, 101).tolist())) == 1


def test_spread_signals_are_the_judged_ones_and_nothing_elsewhere() -> None:
    whole = np.array([1, 2, 3, 4], np.float32)
    found = SparseSignals(table(), np.array([2, 0]), 4, {"need": 0.5}, {"w": whole})
    assert {name: values.tolist() for name, values in found.items()} == {
        "a": [0.25, 0, 0.5, 0],
        "b": [0, 0, 1, 0],
        "need": [0.5] * 4,
        "w": [1, 2, 3, 4],
    }
    for position in (0, 1, 2, 3, 3):
        assert found.at(position) == {name: v[position] for name, v in found.items()}
        found.at(position)["a"] = 9.0  # the caller's own


@pytest.mark.parametrize("size", [1, 5, 99, 100, 101, 799, 800, 5_003])
@pytest.mark.parametrize("distinct", [1, 3, 60, 100_000])
def test_the_best_are_those_of_a_full_sort(size: int, distinct: int) -> None:
    rng = np.random.default_rng(size)
    values = rng.integers(0, distinct, size).astype(np.float32)
    best = best_of(values)
    assert values[best].tolist() == sorted(values.tolist(), reverse=True)[:100]
    assert len(set(best.tolist())) == len(best)
    ties = values[best][1:] == values[best][:-1]
    assert (np.diff(best)[ties] > 0).all()


def test_descending_is_a_stable_sort() -> None:
    values = np.random.default_rng(1).normal(size=4_000).round(2).astype(np.float32)
    values[::50] = 0.0
    values[25::50] = -0.0
    assert descending(values).tolist() == np.argsort(-values, kind="stable").tolist()
