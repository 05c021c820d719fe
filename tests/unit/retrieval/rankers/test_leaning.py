"""What the learned order leans on in a large catalog."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.rankers.leaning import leaned, trust
from armory.retrieval.scoring.calibration import Calibration, Linear, parse_calibration

GAIN = Linear({"clauses": 0.03, "apart": -0.02}, -0.03)


def test_a_small_catalog_trusts_what_was_learned() -> None:
    assert trust(GAIN, {"clauses": 0.0, "apart": 5.0}, 4) == 1.0
    assert trust(GAIN, {"clauses": 0.0, "apart": 5.0}, 300) == 1.0


def test_trust_falls_with_size_where_the_query_gives_cause() -> None:
    shares = [trust(GAIN, {"clauses": 0.0, "apart": 2.0}, n) for n in (300, 600, 1500, 15_000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0
    assert shares[-1] == 0.0
    assert trust(GAIN, {"clauses": 0.0, "apart": 2.0}, 1_000_000) == 0.0


def test_a_query_of_many_wishes_is_ordered_as_was_learned() -> None:
    assert trust(GAIN, {"clauses": 5.0, "apart": 0.0}, 15_000) == 1.0


@pytest.mark.parametrize(("share", "first"), [(1.0, 0), (0.0, 1), (0.4, 1), (0.6, 0)])
def test_the_order_is_of_both(share: float, first: int) -> None:
    odds = np.array([2.0, 0.0, -1.0, *[-6.0] * 20], np.float32)
    plain = np.array([0.5, 0.7, 0.1, *[0.0] * 20], np.float32)
    found = leaned(odds, plain, share)
    assert int(found.argmax()) == first
    assert found.dtype == np.float32


def test_the_best_stays_as_likely_where_one_order_decides() -> None:
    odds = np.array([2.0, 0.0, -1.0], np.float32)
    plain = np.array([0.1, 0.2, 0.7], np.float32)
    assert leaned(odds, plain, 0.0)[2] == pytest.approx(2.0)
    assert leaned(odds, plain, 1.0) is odds


def test_equal_values_and_a_single_tool() -> None:
    same = np.ones(5, np.float32)
    assert np.isfinite(leaned(same, same, 0.3)).all()
    one = np.array([0.4], np.float32)
    assert leaned(one, one, 0.0) is one


def test_constants_without_lean_let_the_learned_order_stand() -> None:
    with_it = Calibration(Linear(), Linear(), Linear(), 0.1, 9.0, lean=GAIN)
    assert parse_calibration(with_it.to_json()).lean == GAIN
    without = Calibration(Linear(), Linear(), Linear(), 0.1, 9.0)
    assert "lean" not in without.to_json()
    assert parse_calibration(without.to_json()).lean is None
