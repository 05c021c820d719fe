"""In a large catalog the learned order leans on plain ones: how far, and what comes of it.

Owns: `trust`, `leaned`, `best_by` and `kept`, pure functions. Never imports indexes, embedders or
rankers.

What was learned on some thousand tools follows words too far among many thousands: of so many some
are rare in the query's words by chance. Whether it does can be seen in the query: where the best
tool by meaning is nothing by words, and the query is one wish, the plain formulas order better.
What a plain formula holds for the best is never ordered away altogether.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from armory.retrieval.ports import FloatArray
from armory.retrieval.scoring.calibration import Lean

#: Tools up to which the learned order stands by itself, and from which trust alone decides.
_BY_ITSELF, _BY_TRUST = 50, 3_000
#: Neither order is ever left out: what both find is more often right than what one finds.
_LEAST, _MOST = 0.15, 0.95
#: Recall that the learned order must be expected to gain on the plain ones to be trusted wholly.
_GAIN = 0.05
#: Orders are compared over so many best candidates.
_SPAN = 20
#: Candidates that some reason keeps among the first are among so many.
_PLACES = 5
_TINY = 1e-6


def trust(lean: Lean, query: Mapping[str, float], tools: int) -> float:
    """The learned order's share, in [0.15, 0.95] from 3,000 tools on, 1 up to 50.

    Args:
        lean: signals of the query -> recall that the learned order is expected to gain.
        query: the signals.
        tools: how many are searched.
    """
    if tools <= _BY_ITSELF:
        return 1.0
    sure = min(max(lean.gain.of(query) / _GAIN, 0.0), 1.0)
    share = _LEAST + (_MOST - _LEAST) * sure
    return 1.0 - _way(tools) * (1.0 - share)


def _way(tools: int) -> float:
    """How far a catalog has come from small to large, in orders of magnitude."""
    return min(float(np.log(tools / _BY_ITSELF) / np.log(_BY_TRUST / _BY_ITSELF)), 1.0)


def leaned(
    odds: FloatArray, plain: Mapping[str, FloatArray], onto: Mapping[str, float], share: float
) -> FloatArray:
    """Log-odds in the order of all formulas, on the scale of the first.

    Args:
        odds: (k,) of the learned order.
        plain: formula -> (k,) values.
        onto: formula -> its share of what `share` leaves; a formula that is not there is 0.
        share: of the learned order, in [0, 1].

    Returns:
        (k,) float32, its best at most as likely as the best of `odds`.
    """
    if share >= 1.0 or len(odds) < 2:
        return odds
    top, span = _top_and_span(odds)
    found = np.float32(share / span) * (odds - np.float32(top))
    for name, weight in onto.items():
        if name in plain:
            best, width = _top_and_span(plain[name])
            found += np.float32((1.0 - share) * weight / width) * (plain[name] - np.float32(best))
    found *= np.float32(span)
    found += np.float32(top)
    return found


def best_by(plain: Mapping[str, FloatArray]) -> list[int]:
    """Position of the best candidate by each formula, each once, ascending.

    Args:
        plain: formula -> (k,) values; of equal ones the first counts.
    """
    return sorted({int(values.argmax()) for values in plain.values()})


def kept(odds: FloatArray, best: Collection[int]) -> FloatArray:
    """Log-odds in which some candidates are among the first five.

    Args:
        odds: (k,) in some order.
        best: their positions, each once; at most five.

    Returns:
        (k,) float32; those that stood lower are just above what they push out of the five, in
        their own order, and all others as they were.
    """
    others = np.delete(odds, list(best))
    left = len(others) - (_PLACES - len(best)) - 1
    if left < 0:
        return odds
    level = np.partition(others, left)[left]
    low = [place for place in best if odds[place] <= level]
    if not low:
        return odds
    raised = odds.copy()
    for place in sorted(low, key=lambda place: (odds[place], -place)):
        raised[place] = level = np.nextafter(level, np.float32(np.inf))
    return raised


def _top_and_span(values: FloatArray) -> tuple[float, float]:
    """The greatest value, and how far below it the twentieth is."""
    place = max(len(values) - _SPAN, 0)
    top = float(values.max())
    return top, max(top - float(np.partition(values, place)[place]), _TINY)
