"""The quick sort of scores is the stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.ports import IntArray
from armory.retrieval.scoring.ordering import Order, descending

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


def test_an_order_sorts_all_only_where_it_is_asked_for_more_than_the_best() -> None:
    sorted_: list[int] = []
    values = np.array([0.1, 0.9, 0.3, 0.8, 0.2], np.float32)

    def every() -> IntArray:
        sorted_.append(1)
        return descending(values)

    order = Order(np.array([1, 3]), len(values), every)
    assert len(order) == 5
    assert order[:2].tolist() == [1, 3]
    assert order.among(values > 0.5).tolist() == [1, 3]
    assert order.among(values > 0.85).tolist() == [1]
    assert order.among(values > 0.0, enough=2).tolist() == [1, 3]
    assert not sorted_
    assert order.among(values < 0.85).tolist() == [3, 2, 4, 0]
    assert order.tolist() == [1, 3, 2, 4, 0] == list(order) == np.asarray(order).tolist()
    assert np.asarray(order, np.float32).dtype == np.float32
    assert order[0] == 1
    assert order[3:].tolist() == [4, 0]
    assert sorted_ == [1]
    assert Order.of(order) is order
    assert Order.of(np.array([2, 0])).among(values > 0.2).tolist() == [2]
