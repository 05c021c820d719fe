"""How sure a ratio of two percentiles is.

Owns: the bootstrap over blocks of time. Answers that wait behind the same stall are late together,
so whole seconds are drawn, not answers: stalls are far shorter. Never reads a report.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK_S = 1.0
DRAWS = 400
LOW, HIGH = 0.05, 0.95
"""Of ratios whose whole interval lies above the bar, one of twenty does by chance."""
_SEED = 17

Timed = tuple[float, float]
"""When an answer was due, in seconds, and how many milliseconds it took."""


def ratio_interval(under: Iterable[Timed], quiet: Iterable[Timed], share: float) -> Sequence[float]:
    """[low, high], within which nine of ten ratios of a percentile would lie.

    Args:
        under: answers under the attack.
        quiet: answers without it.
        share: of the percentile, in (0, 1), by the nearest rank.

    Returns:
        Two ratios, rounded to hundredths; both 0.0 where either side has no answers.
    """
    drawn = np.random.default_rng(_SEED)
    above, below = (_percentiles(_blocks(side), share, drawn) for side in (under, quiet))
    if not len(above) or not len(below):
        return [0.0, 0.0]
    ratios = above / np.maximum(below, 0.1)
    return [round(float(found), 2) for found in np.quantile(ratios, (LOW, HIGH))]


def _blocks(answers: Iterable[Timed]) -> list[NDArray[np.float64]]:
    """The milliseconds of each second in which anything was due."""
    found: dict[int, list[float]] = defaultdict(list)
    for due, took_ms in answers:
        found[math.floor(due / BLOCK_S)].append(took_ms)
    return [np.array(values) for values in found.values()]


def _percentiles(
    blocks: Sequence[NDArray[np.float64]], share: float, drawn: np.random.Generator
) -> NDArray[np.float64]:
    """(draws,) the percentile of as many blocks, drawn with replacement; (0,) of none."""
    if not blocks:
        return np.zeros(0)
    found = np.empty(DRAWS)
    for place in range(DRAWS):
        chosen = drawn.integers(len(blocks), size=len(blocks))
        values = np.concatenate([blocks[block] for block in chosen])
        rank = min(len(values) - 1, int(len(values) * share))
        found[place] = np.partition(values, rank)[rank]
    return found
