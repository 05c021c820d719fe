"""In a large catalog the learned order leans on the plain one: how far, and what comes of it.

Owns: `trust` and `leaned`, pure functions. Never imports indexes, embedders or rankers.

What was learned on some thousand tools follows words too far among many thousands: of so many some
are rare in the query's words by chance. Whether it does can be seen in the query: where the best
tool by meaning is nothing by words, and the query is one wish, the plain formula orders better.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from armory.retrieval.ports import FloatArray
from armory.retrieval.scoring.calibration import Linear

#: Tools up to which the learned order stands by itself, and from which trust alone decides.
_BY_ITSELF, _BY_TRUST = 300, 1_500
#: Recall that the learned order must be expected to gain on the plain one to be trusted wholly.
_GAIN = 0.1
#: Trust where it is expected to gain nothing, among `_BY_TRUST` tools and among `_MANY`.
_DOUBT, _DOUBT_MANY = 0.3, -0.1
_MANY = 15_000
#: Orders are compared over so many best candidates.
_SPAN = 20
_LEAST = 1e-6


def trust(lean: Linear, query: Mapping[str, float], tools: int) -> float:
    """The learned order's share, in [0, 1].

    Args:
        lean: signals of the query -> recall that the learned order is expected to gain.
        query: the signals.
        tools: how many are searched.
    """
    if tools <= _BY_ITSELF:
        return 1.0
    many = _share(tools, _BY_TRUST, _MANY)
    sure = lean.of(query) / _GAIN + _DOUBT + many * (_DOUBT_MANY - _DOUBT)
    return 1.0 - _share(tools, _BY_ITSELF, _BY_TRUST) * (1.0 - min(max(sure, 0.0), 1.0))


def _share(tools: int, low: int, high: int) -> float:
    """How far a catalog's size has come from the one to the other, in orders of magnitude."""
    return float(np.clip(np.log(tools / low) / np.log(high / low), 0.0, 1.0))


def leaned(odds: FloatArray, plain: FloatArray, share: float) -> FloatArray:
    """Log-odds in the order of both formulas, on the scale of the first.

    Args:
        odds: (k,) of the learned order.
        plain: (k,) of the plain formula.
        share: of the learned order, in [0, 1].

    Returns:
        (k,) float32; their best is as likely as the best of `odds`.
    """
    if share >= 1.0 or len(odds) < 2:
        return odds
    top, span = _top_and_span(odds)
    plain_top, plain_span = _top_and_span(plain)
    found = share * (odds - top) / span + (1.0 - share) * (plain - plain_top) / plain_span
    return (top + span * found).astype(np.float32)


def _top_and_span(values: FloatArray) -> tuple[float, float]:
    """The greatest value, and how far below it the twentieth is."""
    place = max(len(values) - _SPAN, 0)
    top = float(values.max())
    return top, max(top - float(np.partition(values, place)[place]), _LEAST)
