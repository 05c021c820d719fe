"""Counts and durations of calls, kept as plain numbers and converted to metrics at scrape time.

Owns: `CallTallies`. The client library's counters take a lock and several Python frames a call,
which is a noticeable part of what a call through the gateway costs. Never imports a room above
`domain`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from armory.domain.naming import split_name

_TOOLS_KEPT = 100_000


class _Tally:
    """The calls of one server."""

    __slots__ = ("buckets", "cancelled", "failed", "seconds", "succeeded")

    def __init__(self, buckets: int) -> None:
        self.succeeded = 0
        self.failed = 0
        self.cancelled = 0
        self.seconds = 0.0
        self.buckets = [0] * buckets


class CallTallies(Collector):
    """Calls by server.

    Args:
        bounds: upper bounds of the histogram's buckets in seconds, ascending, without infinity.
        serves: whether a server is there still; calls of others, which ended late, count nowhere.
    """

    def __init__(self, bounds: Sequence[float], serves: Callable[[str], bool]) -> None:
        self._serves = serves
        self._bounds = tuple(bounds)
        self._names = [*(str(float(bound)) for bound in bounds), "+Inf"]
        self._servers: dict[str, _Tally] = {}
        self._of_tool: dict[str, _Tally] = {}

    def count(self, tool: str, latency_ms: float, *, ok: bool | None) -> None:
        """Count one call of the exposed name `tool`; `ok` is None if it was cancelled."""
        tally = self._of_tool.get(tool) or self._find(tool)
        if ok:
            tally.succeeded += 1
        elif ok is None:
            tally.cancelled += 1
        else:
            tally.failed += 1
        seconds = latency_ms / 1_000
        tally.seconds += seconds
        tally.buckets[bisect_left(self._bounds, seconds)] += 1

    def _find(self, tool: str) -> _Tally:
        parts = split_name(tool)
        server = parts[0] if parts else ""
        tally = self._servers.get(server)
        if tally is None:
            if not self._serves(server):
                return _Tally(len(self._bounds) + 1)
            tally = self._servers[server] = _Tally(len(self._bounds) + 1)
        if len(self._of_tool) >= _TOOLS_KEPT:
            self._of_tool.clear()
        self._of_tool[tool] = tally
        return tally

    def forget(self, server: str) -> None:
        """Remove the counts of a removed upstream."""
        if self._servers.pop(server, None) is not None:
            self._of_tool.clear()

    def describe(self) -> Iterable[Metric]:
        """As `Collector.describe`: nothing is known before the first call."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """As `Collector.collect`."""
        calls = CounterMetricFamily(
            "armory_tool_calls",
            "Calls of tools, by outcome: `ok`, `error` or `cancelled`.",
            labels=["server", "outcome"],
        )
        took = HistogramMetricFamily(
            "armory_tool_call_seconds", "Duration of calls.", labels=["server"]
        )
        for server, tally in self._servers.items():
            counts = (tally.succeeded, tally.failed, tally.cancelled)
            for outcome, count in zip(("ok", "error", "cancelled"), counts, strict=True):
                calls.add_metric([server, outcome], count)  # from 0 on: a rate is of a difference
            upto = zip(self._names, accumulate(tally.buckets), strict=True)
            took.add_metric([server], [(name, float(n)) for name, n in upto], tally.seconds)
        yield calls
        yield took
