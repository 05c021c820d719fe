"""Usage and quotas as rows, the same on the command line and over REST.

Owns: the names of the fields, their rounding and the order of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from armory.accounts.plans import Standing
from armory.accounts.usage.statistics import UsageStatistics
from armory.accounts.usage.store import ToolStatistics, UserTool

Row = dict[str, Any]
_Figures = TypeVar("_Figures", ToolStatistics, UserTool)


def user_rows(tools: Mapping[str, UserTool]) -> list[Row]:
    """What one user did with each tool, the most used first."""
    return [
        {
            "tool": name,
            "uses": row.uses,
            "successes": row.successes,
            "last_used_at_ms": row.last_used_at_ms,
        }
        for name, row in _most_used_first(tools)
    ]


def tool_rows(
    usage: UsageStatistics,
    tools: Mapping[str, ToolStatistics],
    *,
    share_digits: int = 6,
    ms_digits: int = 3,
) -> list[Row]:
    """The statistics of each tool, the most used first.

    Args:
        usage: knows how long the tools' servers were up.
        tools: the statistics by tool.
        share_digits: decimals of `error_rate` and `uptime`, both in [0, 1].
        ms_digits: decimals of latencies.
    """
    return [
        {
            "tool": name,
            "uses": stats.uses,
            "successes": stats.successes,
            "error_rate": round(stats.error_rate, share_digits),
            "uptime": round(usage.uptime_behind(name), share_digits),
            "p50_ms": round(stats.p50_ms, ms_digits),
            "p99_ms": round(stats.p99_ms, ms_digits),
            "last_used_at_ms": stats.last_used_at_ms,
        }
        for name, stats in _most_used_first(tools)
    ]


def quota_row(standing: Standing) -> Row:
    """A user's plan and what is left of it."""
    return {
        "plan": standing.plan,
        "queries_limit": standing.queries_limit,
        "current_month_usage": standing.current_month_usage,
        "remaining": standing.remaining,
    }


def _most_used_first(tools: Mapping[str, _Figures]) -> list[tuple[str, _Figures]]:
    return sorted(tools.items(), key=lambda item: (-item[1].uses, item[0]))
