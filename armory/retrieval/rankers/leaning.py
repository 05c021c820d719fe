"""Blending the learned order with plain formulas in large catalogs (docs/relevance.md).

Owns: the learned order's share, the blend, and keeping each formula's best among the first. Pure
functions. Never imports indexes, embedders or rankers.

Constants that were learned on some thousand tools trust words too much among many thousands, where
some tools share a rare word with any query by chance. The query shows when that happens: if the
best tool by meaning shares no words with it and it asks for one thing, the plain formulas order
better. The best tool by a plain formula always stays among the first five.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from armory.retrieval.ports import FloatArray
from armory.retrieval.scoring.calibration import Lean

#: Tools up to which the learned order decides alone, and from which the query alone sets its share.
_SMALL, _LARGE = 50, 3_000
#: Bounds of that share: what both orders find is more often right than what one of them finds.
_LEAST, _MOST = 0.15, 0.95
#: Expected gain in recall over the plain formulas from which the share is greatest.
_GAIN = 0.05
#: Formulas are put on one scale by the gap between their best and their twentieth candidate.
_SPAN = 20
#: The best of each formula stays among so many.
_PLACES = 5
_TINY = 1e-6


def learned_share(lean: Lean, query: Mapping[str, float], tools: int) -> float:
    """The learned order's share, in [0.15, 0.95] from 3,000 tools on, 1 up to 50.

    Args:
        lean: predicts from signals of the query how much recall the learned order gains.
        query: those signals, by name.
        tools: how many are searched.
    """
    if tools <= _SMALL:
        return 1.0
    sure = min(max(lean.gain.of(query) / _GAIN, 0.0), 1.0)
    share = _LEAST + (_MOST - _LEAST) * sure
    size = min(float(np.log(tools / _SMALL) / np.log(_LARGE / _SMALL)), 1.0)  # 0 small, 1 large
    return 1.0 - size * (1.0 - share)


def blended(
    odds: FloatArray, plain: Mapping[str, FloatArray], onto: Mapping[str, float], share: float
) -> FloatArray:
    """Log-odds in the blended order, on the scale of the learned ones.

    Args:
        odds: (k,) learned log-odds.
        plain: formula -> (k,) values.
        onto: formula -> its part of `1 - share`; one that `plain` lacks counts 0.
        share: the learned order's, in [0, 1].

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


def best_by_each(plain: Mapping[str, FloatArray]) -> list[int]:
    """Positions of the best candidate of each formula, each once, ascending.

    Args:
        plain: formula -> (k,) values; of equal ones the first counts.
    """
    return sorted({int(values.argmax()) for values in plain.values()})


def kept_near_top(odds: FloatArray, best: Collection[int]) -> FloatArray:
    """Log-odds with some candidates raised to be among the first five.

    Args:
        odds: (k,) log-odds.
        best: positions to keep there, each once; at most five.

    Returns:
        (k,) float32; what was raised is just above what it pushes out of the five, in its old
        order. All others stay as they were.
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
    """The greatest value, and how far below it the twentieth is; the gap is never 0."""
    place = max(len(values) - _SPAN, 0)
    top = float(values.max())
    return top, max(top - float(np.partition(values, place)[place]), _TINY)
