"""The factors of multi-factor ranking, as plain formulas over counts and latencies.

Owns: popularity, history, performance and their constants. Never imports anything: statistics come
in as numbers, whoever keeps them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

RELIABILITY_BONUS = 0.1
RECENT_DAYS = 7.0
RECENCY_BOOST = 1.2
SLOW_MS = 5_000.0
#: Performance of a tool that nobody has measured: neither good nor bad.
UNMEASURED = 0.5


def usage_percentile(uses: int, used: Sequence[int], tools: int) -> float:
    """Share in [0, 1] of the other tools that are used less than this one.

    Args:
        uses: of this tool; 0 gives 0.
        used: ascending uses of every tool that was used at all.
        tools: number of all tools, the unused ones included.
    """
    if uses <= 0:
        return 0.0
    tools = max(tools, len(used))
    if tools <= 1:
        return 1.0
    below = bisect_left(used, uses) + tools - len(used)
    return min(1.0, below / (tools - 1))


def popularity(percentile: float, success_rate: float) -> float:
    """Usage percentile plus a tenth of the success rate, clamped to [0, 1]."""
    return _unit(percentile + RELIABILITY_BONUS * success_rate)


def history(uses: int, successes: int, days_since_use: float) -> float:
    """Success rate of this user, times 1.2 when used within 7 days, clamped; 0 if never used."""
    if uses <= 0:
        return 0.0
    boost = RECENCY_BOOST if days_since_use <= RECENT_DAYS else 1.0
    return _unit(successes / uses * boost)


def performance(p99_ms: float, error_rate: float, uptime: float) -> float:
    """Mean of (1 - p99/5000 ms) and ((1 - error rate) * uptime), each floored at 0.

    Args:
        p99_ms: 99th percentile of the latency, milliseconds.
        error_rate: share of failed calls, in [0, 1].
        uptime: share of time that the server was there, in [0, 1].
    """
    latency = max(0.0, 1.0 - p99_ms / SLOW_MS)
    reliability = max(0.0, (1.0 - error_rate) * uptime)
    return min(1.0, (latency + reliability) / 2.0)


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
