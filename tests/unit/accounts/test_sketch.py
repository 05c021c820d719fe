"""Latency sketches: within one percent, mergeable, and the same after storing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.accounts.usage.sketch import LatencySketch

LATENCIES = st.lists(st.floats(0.0, 1e6, allow_nan=False), min_size=1, max_size=200)


def sketch(values: list[float]) -> LatencySketch:
    made = LatencySketch()
    for value in values:
        made.add(value)
    return made


@given(LATENCIES, LATENCIES)
def test_merging_is_as_good_as_having_seen_it_all(left: list[float], right: list[float]) -> None:
    merged, whole = sketch(left), sketch(left + right)
    merged.merge(sketch(right))
    assert len(merged) == len(whole) == len(left) + len(right)
    for q in (0.0, 0.5, 0.99, 1.0):
        assert merged.quantile(q) == pytest.approx(whole.quantile(q))


@given(LATENCIES)
def test_storing_changes_nothing(values: list[float]) -> None:
    before = sketch(values)
    after = LatencySketch.from_bytes(before.to_bytes())
    assert after.to_bytes() == before.to_bytes()
    for q in (0.5, 0.99):
        assert after.quantile(q) == pytest.approx(before.quantile(q))


def test_percentiles_are_within_one_percent() -> None:
    values = np.random.default_rng(1).lognormal(4, 1, 20_000)
    found = sketch(values.tolist())
    for q in (0.5, 0.9, 0.99):
        assert found.quantile(q) == pytest.approx(float(np.quantile(values, q)), rel=0.011)
    assert len(found.to_bytes()) < 8_000


def test_nothing_and_nonsense_are_an_empty_sketch() -> None:
    for data in (b"", b"\xff\x00nonsense"):
        found = LatencySketch.from_bytes(data)
        assert len(found) == 0
        assert found.quantile(0.5) is None
    negative = sketch([-5.0])
    assert negative.quantile(0.5) == 0
