from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.rankers.signals import FEW, spread, z

APART = (0.25, 0.2)


def test_enough_tools_are_measured_by_themselves() -> None:
    values = np.linspace(0, 1, FEW, dtype=np.float32)
    assert spread(values, 0.4, 0.2, APART) == (0.4, 0.2)


def test_of_two_good_tools_neither_counts_as_bad() -> None:
    values = np.array([0.49, 0.42], np.float32)
    mean, std = float(values.mean()), float(values.std())
    assert z(values, mean, std)[1] < -0.9
    assert z(values, *spread(values, mean, std, APART))[1] > 1.5


def test_a_single_tool_has_a_spread_to_measure_by() -> None:
    values = np.array([0.6], np.float32)
    assert z(values, *spread(values, 0.6, 0.0, APART))[0] > 2


def test_nothing_to_measure_and_nothing_above_zero() -> None:
    none = np.array([], np.float32)
    assert spread(none, 0.0, 0.0, APART) == (0.0, 0.0)
    zeros = np.zeros(3, np.float32)
    assert spread(zeros, 0.0, 0.0, APART) == pytest.approx((0.0, 0.0))


def test_the_least_spread_keeps_weak_tools_weak() -> None:
    values = np.array([0.12, 0.10], np.float32)
    low = spread(values, 0.11, 0.01, APART, (0.1, 0.1))
    assert z(values, *low)[0] < 0.5
