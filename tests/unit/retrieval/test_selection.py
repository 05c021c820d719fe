"""Threshold, refusal, floors and caps, as a table."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.diversity import mmr
from armory.retrieval.ports import Ranked
from armory.retrieval.selection import Limits, cut

LOW = "below threshold"
SCORES = [0.9, 0.2, 0.7, 0.5]
RAW = [3.0, -1.0, 0.4, 2.0]


def ranked(refused: bool = False) -> Ranked:
    score = np.array(SCORES, np.float32)
    order = np.argsort(-score)
    return Ranked(order, np.array(RAW, np.float32), score, score, refused=refused)


@pytest.mark.parametrize(
    ("limits", "refused", "shown", "withheld"),
    [
        (Limits(), False, [0, 2, 3], {1: LOW}),
        (Limits(threshold=0.0), False, [0, 2, 3, 1], {}),
        (Limits(threshold=1.0), False, [], dict.fromkeys(range(4), LOW)),
        (Limits(threshold=1.0, min_tools=2), False, [0, 2], dict.fromkeys([1, 3], LOW)),
        (Limits(max_tools=1), False, [0], {2: "cap", 3: "cap", 1: LOW}),
        (Limits(), True, [], dict.fromkeys(range(4), "refused")),
        (Limits(min_tools=1), True, [0], dict.fromkeys([1, 2, 3], "refused")),
        (Limits(threshold=0.5, threshold_on="raw"), False, [0, 3], dict.fromkeys([1, 2], LOW)),
        (Limits(token_budget=25), False, [0, 3], {2: "token budget", 1: LOW}),
        (Limits(token_budget=5, min_tools=3), False, [3],
         {0: "token budget", 2: "token budget", 1: LOW}),
    ],
)  # fmt: skip
def test_cut(limits: Limits, refused: bool, shown: list[int], withheld: dict[int, str]) -> None:
    costs = [20, 20, 20, 5]
    verdict = ranked(refused)
    reasons: dict[int, str] = {}
    assert cut(verdict, verdict.order, limits, costs.__getitem__, reasons) == shown
    assert reasons == withheld
    assert cut(verdict, verdict.order, limits, costs.__getitem__) == shown


def test_mmr_by_hand() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    score = np.array([0.9, 0.8, 0.6], np.float32)
    assert mmr(score, vectors, 1.0) == [0, 1, 2]
    # second pick: 0.5 * 0.8 - 0.5 * 1 = -0.1 against 0.5 * 0.6 - 0 = 0.3
    assert mmr(score, vectors, 0.5) == [0, 2, 1]
    assert mmr(np.zeros(0, np.float32), np.zeros((0, 2), np.float32), 0.5) == []
