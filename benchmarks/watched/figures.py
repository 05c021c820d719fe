"""What was measured, compared: medians, intervals, bars."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

BARS = {
    "off": ("before", 1.05),
    "traces_1_percent": ("off", 1.05),
    "traces_none_kept": ("off", 1.05),
} | {f"audit_{to}": ("off", 1.1) for to in ("file", "database")}
"""By way: beside which other one it is looked at, and how many times that one's CPU it may take."""


def bars(
    cost: Mapping[str, float], rounds: Mapping[str, list[float]] | None = None
) -> dict[str, object]:
    """Each bar, and whether it holds.

    Args:
        cost: of a call, by way.
        rounds: likewise in each round; None: there are none, and `cost` is exact.
    """
    found: dict[str, object] = {}
    for name, (other, bar) in BARS.items():
        if name in cost and other in cost:
            beside = {"median": round(cost[name] / cost[other], 3)}
            if rounds is not None:
                beside = ratio(rounds[name], rounds[other])
            holds = beside["median"] <= bar
            found[f"{name} / {other}"] = {**beside, "bar": bar, "holds": holds}
    return found


def ratio(took: list[float], base: list[float]) -> dict[str, float]:
    """How a way compares with another, round by round: the median, and its interval (95 %)."""
    ratios = sorted(a / b for a, b in zip(took, base, strict=True))
    margin = round(0.98 * len(ratios) ** 0.5)
    middle = len(ratios) // 2
    return {
        "median": round(statistics.median(ratios), 3),
        "low": round(ratios[max(0, middle - margin)], 3),
        "high": round(ratios[min(len(ratios) - 1, middle + margin)], 3),
    }
