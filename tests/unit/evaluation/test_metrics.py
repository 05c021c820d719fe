"""Figures against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.evaluation.metrics import (
    Shown,
    at_threshold,
    calibration_error,
    complete_at,
    ndcg_at,
    precision_recall_f1,
    recall_at,
    reciprocal_rank,
)


def test_ranking_figures_by_hand() -> None:
    ranks = [2, 7]  # two of three relevant tools are in the ranking, at places 2 and 7
    assert recall_at(ranks, 3, 5) == pytest.approx(1 / 3)
    assert recall_at(ranks, 3, 10) == pytest.approx(2 / 3)
    assert complete_at(ranks, 3, 10) == 0.0
    assert complete_at(ranks, 2, 10) == 1.0
    assert reciprocal_rank(ranks) == 0.5
    assert reciprocal_rank([]) == 0.0
    gain = 1 / math.log2(3) + 1 / math.log2(8)
    ideal = 1 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg_at(ranks, 3, 10) == pytest.approx(gain / ideal)


def test_the_ideal_is_cut_at_k() -> None:
    assert ndcg_at(range(1, 13), 12, 10) == pytest.approx(1.0)


def test_precision_and_f1_where_nothing_is_returned() -> None:
    assert precision_recall_f1(0, 0, 2) == (0.0, 0.0, 0.0)
    assert precision_recall_f1(1, 2, 1) == (0.5, 1.0, pytest.approx(2 / 3))


def test_no_tool_queries_are_left_out_of_the_means() -> None:
    at = at_threshold(0.5, [Shown(2, 1, 1), Shown(0, 0, 1), Shown(0, 0, 0), Shown(3, 0, 0)])
    assert (at.recall, at.precision, at.returned_mean) == (0.5, 0.25, 1.0)
    assert (at.empty_share, at.refused_share) == (0.5, 0.5)
    assert at_threshold(0.5, [Shown(1, 1, 1)]).refused_share is None


def test_calibration_error_by_hand() -> None:
    probability = np.array([0.1, 0.1, 0.9, 0.9])
    assert calibration_error(probability, np.array([0, 0, 1, 1.0]), 2) == pytest.approx(0.1)
    assert calibration_error(probability, np.array([1, 1, 0, 0.0]), 2) == pytest.approx(0.9)
    assert calibration_error(np.zeros(0), np.zeros(0)) == 0.0
    # bins of two and of one, which count by their size
    odd = calibration_error(np.array([0.1, 0.1, 0.4]), np.array([0, 0, 1.0]), 2)
    assert odd == pytest.approx((2 * 0.1 + 0.6) / 3)
    # fifteen bins of two; larger ones would even out what is wrong in each
    wanted = np.array([1.0, 1.0, 0.0, 0.0] * 7 + [1.0, 1.0])
    assert calibration_error(np.full(30, 0.5), wanted) == pytest.approx(0.5)


@given(st.sets(st.integers(1, 40), min_size=1, max_size=8))
def test_figures_stay_in_range_and_grow_with_k(ranks: set[int]) -> None:
    relevant = len(ranks)
    for k in (1, 5, 10):
        assert 0 <= recall_at(ranks, relevant, k) <= recall_at(ranks, relevant, k + 1) <= 1
        assert 0 <= ndcg_at(ranks, relevant, k) <= 1 + 1e-9
