"""The figures of an evaluation as pure functions.

Owns: ranking metrics, the threshold sweep, calibration error. Never imports anything of Armory.

Ranks are over a full ranking. Recall of a query is the share of its relevant tools that were
found; every mean is over queries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""0.05 to 0.95: what is swept over, and what is suggested is one of them."""


def recall_at(ranks: Collection[int], relevant: int, k: int) -> float:
    """Share of the relevant tools within the first k.

    Args:
        ranks: ranks from 1 of the relevant tools that the ranking holds.
        relevant: how many there are, at least 1.
        k: cut-off.
    """
    return sum(rank <= k for rank in ranks) / relevant


def complete_at(ranks: Collection[int], relevant: int, k: int) -> float:
    """1 when every relevant tool is within the first k, else 0."""
    return float(sum(rank <= k for rank in ranks) == relevant)


def ndcg_at(ranks: Collection[int], relevant: int, k: int) -> float:
    """Normalised discounted cumulative gain with binary gains (Järvelin and Kekäläinen, 2002)."""
    gain = sum(1 / np.log2(rank + 1) for rank in ranks if rank <= k)
    ideal = sum(1 / np.log2(place + 1) for place in range(1, min(relevant, k) + 1))
    return float(gain / ideal)


def reciprocal_rank(ranks: Collection[int]) -> float:
    """1 / rank of the first relevant tool, 0 without one."""
    return 1 / min(ranks) if ranks else 0.0


def precision_recall_f1(found: int, returned: int, relevant: int) -> tuple[float, float, float]:
    """(precision, recall, F1) of one query; precision is 0 if nothing is returned, F1 is 0 if both
    are.
    """
    precision = found / returned if returned else 0.0
    recall = found / relevant if relevant else 0.0
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


@dataclass(frozen=True, slots=True)
class Shown:
    """The outcome of one query's listing.

    Attributes:
        returned: number of tools.
        found: relevant ones among them.
        relevant: how many are relevant; 0: no tool fits.
    """

    returned: int
    found: int
    relevant: int


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """Listings under one threshold: means over the queries that want a tool.

    Attributes:
        value: the threshold, 0 to 1.
        recall, precision, f1: of what is shown, 0 to 1, higher is better.
        returned_mean: tools that are shown.
        empty_share: share of the queries that are shown none, 0 to 1, lower is better.
        refused_share: share of the queries that want no tool and are shown none, 0 to 1, higher is
            better; None: there are no such queries.
    """

    value: float
    recall: float
    precision: float
    f1: float
    returned_mean: float
    empty_share: float
    refused_share: float | None


def at_threshold(value: float, shown: Sequence[Shown]) -> AtThreshold:
    """Average the outcomes of listings."""
    wanting = [s for s in shown if s.relevant]
    idle = [s for s in shown if not s.relevant]
    parts = [precision_recall_f1(s.found, s.returned, s.relevant) for s in wanting]
    refused = mean([float(s.returned == 0) for s in idle]) if idle else None
    return AtThreshold(
        value=value,
        precision=mean([p for p, _, _ in parts]),
        recall=mean([r for _, r, _ in parts]),
        f1=mean([f for _, _, f in parts]),
        returned_mean=mean([float(s.returned) for s in wanting]),
        empty_share=mean([float(s.returned == 0) for s in wanting]),
        refused_share=refused,
    )


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, 0 of nothing."""
    return float(np.mean(values)) if len(values) else 0.0


def percentile(values: Sequence[float], q: float) -> float:
    """The q-th percentile (0 to 100), 0 of nothing."""
    return float(np.percentile(values, q)) if len(values) else 0.0


def calibration_error(probability: Floats, wanted: Floats, bins: int = 15) -> float:
    """Expected calibration error over equal-mass bins: mean |mean P - share wanted|, by mass.

    Args:
        probability: (n,) in [0, 1].
        wanted: (n,) 0 or 1.
        bins: number of bins of (nearly) equal mass.
    """
    if not len(probability):
        return 0.0
    order = np.argsort(probability, kind="stable")
    total = 0.0
    for part in np.array_split(order, min(bins, len(order))):
        total += abs(float(probability[part].mean() - wanted[part].mean())) * len(part)
    return total / len(order)
