"""Relevance labels: raw retrieval scores as words, and on one scale.

Owns: the quality labels of both searches and `strength`, which makes their scores comparable.
Never imports anything but the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

Search = Literal["vector_search", "keyword_search"]
SEARCHES: tuple[Search, ...] = ("vector_search", "keyword_search")

KEYWORD_LABELS: tuple[tuple[float, str], ...] = (
    (15.0, "strong"),
    (8.0, "good"),
    (3.0, "partial"),
    (0.0, "weak"),
)
VECTOR_LABELS: tuple[tuple[float, str], ...] = (
    (0.5, "strong"),
    (0.35, "good"),
    (0.2, "marginal"),
)
"""(least score, label) of either, best first. BM25 scores are at least 0, cosines from -1 to 1."""
ORDER = ("strong", "good", "partial", "marginal", "weak", "noise", "none")
_USEFUL = frozenset({"strong", "good", "partial", "marginal"})
_KNOTS = ((0.0, 0.0), (1.0, 0.1), (3.0, 0.2), (8.0, 0.35), (15.0, 0.5))
"""Where the labels of BM25 begin, and the cosine whose label means the same."""


def label(search: Search, score: float) -> str:
    """The label of one raw score.

    BM25: strong from 15, good from 8, partial from 3, weak above 0, none at 0. Cosine: strong
    from 0.5, good from 0.35, marginal from 0.2, noise below.
    """
    if search == "keyword_search":
        if score <= 0:
            return "none"
        return next(name for least, name in KEYWORD_LABELS if score >= least)
    return next((name for least, name in VECTOR_LABELS if score >= least), "noise")


def useful(name: str) -> bool:
    """Whether a label promises material worth keeping."""
    return name in _USEFUL


def strength(search: Search, score: float) -> float:
    """A raw score on the cosine's scale, in [0, 1], higher is better.

    A cosine is itself, floored at 0. BM25 is mapped piecewise linearly so that labels of the same
    rank begin at the same value (3 and 0.2, 8 and 0.35, 15 and 0.5); above 15 it approaches 1.
    """
    if search == "vector_search":
        return min(max(score, 0.0), 1.0)
    if score <= 0:
        return 0.0
    for (low, below), (high, above) in pairwise(_KNOTS):
        if score < high:
            return below + (above - below) * (score - low) / (high - low)
    return 1.0 - 0.5 * _KNOTS[-1][0] / score


def counts(names: Iterable[str]) -> str:
    """`1 strong, 2 noise`: how often each label occurs, best first; "" for none."""
    seen = list(names)
    return ", ".join(f"{seen.count(name)} {name}" for name in ORDER if name in seen)
