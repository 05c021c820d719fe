"""Durations of requests and sessions, counted here and handed over when they are exported.

Owns: the histograms' buckets, and their form for the SDK. The SDK's own histogram takes many times
as long to record one value as counting it does. Imports OpenTelemetry's SDK, so it is imported only
where telemetry is on.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from functools import reduce
from operator import add
from threading import Lock
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
)

from armory.telemetry import conventions as c
from armory.telemetry.conventions import Series
from armory.telemetry.measuring import AT_ONCE, Uncounted

TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
AGGREGATION = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
EXPONENTIAL = "base2_exponential_bucket_histogram"
NAMES = (*c.DURATION.values(), *c.SESSION_DURATION.values())
DESCRIPTION = "Duration, as the MCP semantic conventions define it."
LIMIT = 2_000
"""Series of one histogram, as in the specification; all others share one overflow series."""
USUAL = 8 * LIMIT
"""Keys of series that are kept; with more, all are forgotten."""
_OVERFLOW = Series("otel.metric.overflow", None, None, None, None, None, "")
_ROOT = Context()
Attributes = dict[str, Any]


class _Point:
    __slots__ = ("buckets", "longest", "seconds", "shortest")

    def __init__(self) -> None:
        self.buckets = [0] * (len(c.BOUNDARIES_S) + 1)
        self.seconds = 0.0
        self.shortest = float("inf")
        self.longest = 0.0

    def count(self, found: list[float]) -> None:
        """Count durations, at least one."""
        self.seconds = reduce(add, found, self.seconds)
        found.sort()
        self.shortest = min(self.shortest, found[0])
        self.longest = max(self.longest, found[-1])
        counted = 0
        for at, boundary in enumerate(c.BOUNDARIES_S):
            upto = bisect_right(found, boundary, counted)
            self.buckets[at] += upto - counted
            counted = upto
        self.buckets[-1] += len(found) - counted


class Buckets:
    """Histograms with the conventions' boundaries. One thread records, another may take.

    A duration is put into a list of its series, which is all that it costs where it is measured:
    the list is counted when it is long, or when what there is gets exported.

    Args:
        environ: says whether an export has what came since the one before, or everything.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        preferred = environ.get(TEMPORALITY, "").strip().upper()
        self._delta = preferred in ("DELTA", "LOWMEMORY")
        self._began_ns = time.time_ns()
        self._lock = Lock()
        self._told: dict[str, dict[Series, Uncounted]] = {name: {} for name in NAMES}
        self._points: dict[str, dict[Series, _Point]] = {name: {} for name in NAMES}
        self.usual: dict[Hashable, Uncounted] = {}

    def record(
        self, name: str, seconds: float, series: Series, usual: Hashable | None = None
    ) -> None:
        """As `Durations.record`."""
        histogram = self._told[name].get(series)
        if histogram is None:
            histogram = self._begun(name, series)
        if usual is not None:
            if len(self.usual) >= USUAL:
                self.usual.clear()
            self.usual[usual] = histogram
        histogram.append(seconds)
        if len(histogram) >= AT_ONCE:
            histogram.fold()

    def _begun(self, name: str, series: Series) -> Uncounted:
        """Create the list of a series."""
        lists = self._told[name]
        with self._lock:
            if len(lists) >= LIMIT:  # the thread that records lets go of them: it fills none now
                self._fold()
                lists.clear()
                self.usual.clear()
            return lists.setdefault(series, Uncounted(name, series, self._count_full))

    def _count_full(self, told: Uncounted) -> None:
        with self._lock:
            self._count(told)

    def _fold(self) -> None:
        """Count all lists; the caller holds the lock."""
        for lists in self._told.values():
            for told in lists.values():
                self._count(told)

    def _count(self, told: Uncounted) -> None:
        """Count what one list holds now: in one step, which costs a fraction of one by one."""
        found = told[:]
        if found:
            del told[: len(found)]
            points = self._points[told.name]
            (points.get(told.series) or _added(points, told.series)).count(found)

    def taken(self) -> list[Metric]:
        """The histograms to export; empty ones are left out."""
        with self._lock:
            self._fold()
            began_ns, now_ns = self._began_ns, time.time_ns()
            if self._delta:
                self._began_ns = now_ns
                taken, self._points = self._points, {name: {} for name in NAMES}
                found = {name: _read(points.items()) for name, points in taken.items()}
            else:
                found = {name: _read(points.items()) for name, points in self._points.items()}
        temporality = (
            AggregationTemporality.DELTA if self._delta else AggregationTemporality.CUMULATIVE
        )
        return [
            Metric(
                name,
                DESCRIPTION,
                "s",
                Histogram([_exported(*read, began_ns, now_ns) for read in reads], temporality),
            )
            for name, reads in found.items()
            if reads
        ]


_Read = tuple[Series, list[int], float, float, float]


def _added(points: dict[Series, _Point], series: Series) -> _Point:
    if len(points) >= LIMIT:
        series = _OVERFLOW
    return points.setdefault(series, _Point())


def _read(points: Iterable[tuple[Series, _Point]]) -> list[_Read]:
    return [
        (series, point.buckets.copy(), point.seconds, point.shortest, point.longest)
        for series, point in points
    ]


def _exported(
    series: Series,
    buckets: list[int],
    seconds: float,
    shortest: float,
    longest: float,
    began_ns: int,
    now_ns: int,
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes={_OVERFLOW.method: True} if series is _OVERFLOW else labels(series),
        start_time_unix_nano=began_ns,
        time_unix_nano=now_ns,
        count=sum(buckets),
        sum=seconds,
        bucket_counts=buckets,
        explicit_bounds=c.BOUNDARIES_S,
        min=shortest,
        max=longest,
    )


class Instruments:
    """Histograms of the SDK, used if the environment asks for exponential ones.

    Args:
        meter: makes them.
    """

    def __init__(self, meter: Meter) -> None:
        self._histograms = {
            name: meter.create_histogram(
                name,
                unit="s",
                description=DESCRIPTION,
                explicit_bucket_boundaries_advisory=c.BOUNDARIES_S,
            )
            for name in NAMES
        }
        self.usual: dict[Hashable, Uncounted] = {}  # the SDK knows nothing that stands for a series

    def record(
        self, name: str, seconds: float, series: Series, usual: Hashable | None = None
    ) -> None:
        """As `Durations.record`."""
        self._histograms[name].record(seconds, labels(series), _ROOT)


def labels(series: Series) -> Attributes:
    """The attributes of a metric; absent ones are left out."""
    kind, transport = series.kind, series.transport
    found: Attributes = {c.TRANSPORT: transport}
    if series.method:
        found[c.METHOD] = series.method
    if series.version:
        found[c.VERSION] = series.version
    if series.name is not None and kind in ("tool", "prompt"):
        found[c.TARGET_ATTRIBUTE[kind]] = series.name
    if kind == "tool":
        found[c.OPERATION] = c.EXECUTE_TOOL
    if transport == "tcp":
        found[c.PROTOCOL] = "http"
    if series.failure is not None:
        found[c.ERROR] = series.failure
    if series.status is not None:
        found[c.STATUS_CODE] = series.status
    if series.host is not None:
        found[c.SERVER_ADDRESS] = series.host
        found[c.SERVER_PORT] = series.port
    return found
