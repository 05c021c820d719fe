"""What the learned order leans on in a large catalog."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armory.errors import ConfigError
from armory.retrieval.rankers.leaning import best_by_each, blended, kept_near_top, learned_share
from armory.retrieval.scoring.calibration import (
    Calibration,
    Lean,
    Linear,
    calibration_for,
    parse_calibration,
)

LEAN = Lean(Linear({"clauses": 0.03, "apart": -0.02}, -0.03), {"hybrid": 0.5, "semantic": 0.5})
DOUBTED = {"clauses": 0.0, "apart": 5.0}
HYBRID = {"hybrid": 1.0}


def test_a_few_dozen_tools_trust_what_was_learned() -> None:
    assert learned_share(LEAN, DOUBTED, 4) == 1.0
    assert learned_share(LEAN, DOUBTED, 50) == 1.0


def test_trust_falls_with_size_where_the_query_gives_cause() -> None:
    shares = [learned_share(LEAN, DOUBTED, n) for n in (50, 80, 300, 3_000)]
    assert shares == sorted(set(shares), reverse=True)
    assert shares[-1] == pytest.approx(0.15)
    assert learned_share(LEAN, DOUBTED, 1_000_000) == shares[-1]


def test_neither_order_is_ever_left_out() -> None:
    many_wishes = {"clauses": 9.0, "apart": 0.0}
    assert learned_share(LEAN, many_wishes, 15_000) == pytest.approx(0.95)
    assert learned_share(LEAN, DOUBTED, 15_000) == pytest.approx(0.15)


@pytest.mark.parametrize(("share", "first"), [(1.0, 0), (0.0, 1), (0.4, 1), (0.6, 0)])
def test_the_order_is_of_both(share: float, first: int) -> None:
    odds = np.array([2.0, 0.0, -1.0, *[-6.0] * 20], np.float32)
    plain = {"hybrid": np.array([0.5, 0.7, 0.1, *[0.0] * 20], np.float32)}
    found = blended(odds, plain, HYBRID, share)
    assert int(found.argmax()) == first
    assert found.dtype == np.float32


def test_each_plain_formula_counts_by_its_share_whatever_its_scale() -> None:
    odds = np.array([1.0, 0.0, *[-6.0] * 20], np.float32)
    plain = {
        "hybrid": np.array([0.9, 0.5, 0.1, *[0.0] * 19], np.float32),
        "semantic": np.array([10.0, 50.0, 90.0, *[0.0] * 19], np.float32),
    }
    firsts = [
        int(blended(odds, plain, {"hybrid": 1 - share, "semantic": share}, 0.0).argmax())
        for share in (0.0, 0.34, 0.66, 1.0)
    ]
    assert firsts == [0, 0, 2, 2]


def test_a_formula_that_is_not_there_says_nothing() -> None:
    odds = np.array([1.0, 0.0, -6.0], np.float32)
    found = blended(odds, {}, {"hybrid": 0.5, "semantic": 0.5}, 0.5)
    assert int(found.argmax()) == 0


def test_the_best_stays_as_likely_where_one_order_decides() -> None:
    odds = np.array([2.0, 0.0, -1.0], np.float32)
    plain = {"hybrid": np.array([0.1, 0.2, 0.7], np.float32)}
    assert blended(odds, plain, HYBRID, 0.0)[2] == pytest.approx(2.0)
    assert blended(odds, plain, HYBRID, 1.0) is odds


def test_nothing_becomes_likelier_than_the_best_was() -> None:
    odds = np.array([2.0, 0.0, -1.0, *[-6.0] * 20], np.float32)
    plain = {"hybrid": np.array([0.5, 0.7, 0.1, *[0.0] * 20], np.float32)}
    assert float(blended(odds, plain, HYBRID, 0.5).max()) < 2.0


def _best(order: list[float]) -> list[int]:
    return np.argsort(-np.array(order), kind="stable")[:5].tolist()


def _only(place: int, count: int = 9) -> Any:
    values = np.zeros(count, np.float32)
    values[place] = 1.0
    return values


def test_the_best_of_each_formula_counts_once() -> None:
    assert best_by_each({"hybrid": _only(8), "semantic": _only(6), "words": _only(8)}) == [6, 8]
    assert best_by_each({"hybrid": np.ones(9, np.float32)}) == [0]
    assert best_by_each({}) == []


def test_what_is_kept_is_among_the_first_five() -> None:
    odds = -np.arange(9, dtype=np.float32)
    found = kept_near_top(odds, [6, 8])
    assert _best(found.tolist()) == [0, 1, 2, 6, 8]
    assert found.dtype == np.float32
    assert found[[0, 1, 2, 3, 4, 5, 7]].tolist() == [0, -1, -2, -3, -4, -5, -7]
    assert found[6] == pytest.approx(-3, abs=1e-5)


def test_who_stands_among_the_five_stays_where_it_is() -> None:
    odds = -np.arange(9, dtype=np.float32)
    assert kept_near_top(odds, [4, 0]) is odds
    assert kept_near_top(odds, []) is odds
    assert _best(kept_near_top(odds, [4, 7]).tolist()) == [0, 1, 2, 4, 7]
    assert sorted(_best(kept_near_top(odds, [8, 7, 6, 5, 0]).tolist())) == [0, 5, 6, 7, 8]


def test_equal_odds_and_catalogs_of_five_keep_their_order() -> None:
    same = np.zeros(9, np.float32)
    assert _best(kept_near_top(same, [7, 8]).tolist())[:2] == [7, 8]
    few = -np.arange(5, dtype=np.float32)
    assert kept_near_top(few, [4]) is few
    assert kept_near_top(few, []) is few


def test_equal_values_and_a_single_tool() -> None:
    same = np.ones(5, np.float32)
    assert np.isfinite(blended(same, {"hybrid": same}, HYBRID, 0.3)).all()
    one = np.array([0.4], np.float32)
    assert blended(one, {"hybrid": one}, HYBRID, 0.0) is one


def test_constants_without_lean_let_the_learned_order_stand() -> None:
    with_it = Calibration(Linear(), Linear(), Linear(), 0.1, 9.0, lean=LEAN)
    assert parse_calibration(with_it.to_json()).lean == LEAN
    without = Calibration(Linear(), Linear(), Linear(), 0.1, 9.0)
    assert "lean" not in without.to_json()
    assert parse_calibration(without.to_json()).lean is None


def test_a_file_without_shares_leans_onto_hybrid() -> None:
    entry = Calibration(Linear(), Linear(), Linear(), 0.1, 9.0, lean=LEAN).to_json()
    del entry["lean"]["onto"]
    lean = parse_calibration(entry).lean
    assert lean is not None
    assert lean.onto == {"hybrid": 1.0}
    assert lean.gain == LEAN.gain


@pytest.mark.parametrize("onto", ["hybrid", {"hybrid": "much"}, 3])
def test_shares_that_are_no_numbers_are_refused(onto: Any) -> None:
    entry = Calibration(Linear(), Linear(), Linear(), 0.1, 9.0, lean=LEAN).to_json()
    entry["lean"]["onto"] = onto
    with pytest.raises(ConfigError, match="armory tune"):
        parse_calibration(entry)


@pytest.mark.parametrize("embedder", ["", "armory-minilm-l6-int8-4"])
def test_what_ships_leans_onto_formulas_that_exist(embedder: str) -> None:
    lean = calibration_for("relevance", embedder).lean
    assert lean is not None
    assert set(lean.onto) <= {"hybrid", "semantic"}
    assert sum(lean.onto.values()) == pytest.approx(1.0)
