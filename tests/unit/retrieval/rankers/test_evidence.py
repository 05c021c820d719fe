"""The order of what was learned, plain formulas and servers together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armory.retrieval.rankers.evidence import Evidence, ordered
from armory.retrieval.scoring.calibration import Lean, Linear

COUNT = 12
ODDS = -np.arange(COUNT, dtype=np.float32)
NEVER = Lean(Linear({}, -1.0), {"hybrid": 0.5, "semantic": 0.5})


def _only(place: int) -> Any:
    values = np.zeros(COUNT, np.float32)
    values[place] = 1.0
    return values


def _first(odds: Any) -> list[int]:
    return np.argsort(-odds, kind="stable")[:5].tolist()


def test_the_best_by_plain_formulas_are_among_the_first_five() -> None:
    evidence = Evidence({"hybrid": _only(8), "semantic": _only(9)}, None)
    assert {8, 9} < set(_first(ordered(ODDS, evidence, NEVER, {}, 1_500)))


def test_formulas_that_nobody_leans_on_keep_no_place() -> None:
    evidence = Evidence({"hybrid": _only(0), "words": _only(9)}, None)
    assert 9 not in _first(ordered(ODDS, evidence, NEVER, {}, 1_500))


@pytest.mark.parametrize("lean", [None, NEVER])
def test_a_few_dozen_tools_stand_as_learned(lean: Lean | None) -> None:
    evidence = Evidence({"hybrid": _only(8), "semantic": _only(9)}, _only(10))
    assert ordered(ODDS, evidence, lean, {}, 50) is ODDS


def test_servers_count_without_lean() -> None:
    evidence = Evidence({}, np.float32(2.5) * _only(3))
    assert _first(ordered(ODDS, evidence, None, {}, 15_000)) == [3, 0, 1, 2, 4]


def test_what_a_text_is_the_name_of_comes_first() -> None:
    evidence = Evidence({"hybrid": _only(8), "semantic": _only(9)}, None, (4,), (11, 5))
    assert _first(ordered(ODDS - 3, evidence, NEVER, {}, 1_500))[:2] == [5, 11]
    assert ordered(ODDS - 3, evidence, None, {}, 10).max() > 0


def test_what_is_implied_stands_in_the_order_of_its_odds() -> None:
    odds = np.array([1.0, -9.0, -7.0, -8.0], np.float32)
    found = ordered(odds, Evidence({}, None, (1, 2, 3)), None, {}, 10)
    assert np.argsort(-found).tolist() == [0, 2, 3, 1]
    assert found[1] < found[3] < found[2] < 0 < found[0]
    assert found[1] > -0.02
