"""Histograms of our own say what the SDK's would say."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest
from opentelemetry.sdk.metrics import Histogram as Instrument
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from structlog.testing import capture_logs

from armory.telemetry import conventions as c
from armory.telemetry import durations
from armory.telemetry.conventions import Series
from armory.telemetry.durations import LIMIT, TEMPORALITY, Buckets, Instruments
from armory.telemetry.exporting import INTERVAL, Exporting

SERVER = c.DURATION["server"]
SCOPE = InstrumentationScope("armory", "1")
SESSION = Series("", None, None, None, None, "2025-06-18", "pipe")
TEMPORALITIES = {
    "": AggregationTemporality.CUMULATIVE,
    "cumulative": AggregationTemporality.CUMULATIVE,
    "delta": AggregationTemporality.DELTA,
    "LOWMEMORY": AggregationTemporality.DELTA,
}


def series(name: str, failure: str | None = None) -> Series:
    return Series("tools/call", "tool", name, failure, None, "2026-07-28", "tcp", "h", 80)


def points(metrics: list[Any]) -> list[dict[str, Any]]:
    """What the points of all metrics say, but for their times."""
    return [
        {
            "metric": (metric.name, metric.unit, metric.description),
            "temporality": metric.data.aggregation_temporality,
            "attributes": dict(point.attributes),
            "count": point.count,
            "sum": point.sum,
            "buckets": list(point.bucket_counts),
            "bounds": tuple(point.explicit_bounds),
            "range": (point.min, point.max),
        }
        for metric in metrics
        for point in metric.data.data_points
    ]


@pytest.mark.parametrize("preference", TEMPORALITIES)
def test_they_say_what_the_sdk_says(preference: str) -> None:
    reader = InMemoryMetricReader({Instrument: TEMPORALITIES[preference]})
    provider = MeterProvider([reader], shutdown_on_exit=False)
    theirs, ours = Instruments(provider.get_meter("x")), Buckets({TEMPORALITY: preference})
    for batch in ([0.0, 0.01, 0.0100001, 7.0, 300.0, 1e6], [0.3], []):
        for seconds in batch:
            for one in (theirs, ours):
                one.record(SERVER, seconds, series("a"))
                one.record(SERVER, seconds, series("b", "tool_error"))
                one.record(c.SESSION_DURATION["client"], seconds, SESSION)
        data = reader.get_metrics_data()
        wanted = data.resource_metrics[0].scope_metrics[0].metrics if data else []
        assert points(ours.taken()) == points(list(wanted))
    provider.shutdown()


def test_a_delta_begins_where_the_one_before_ended() -> None:
    ours = Buckets({TEMPORALITY: "delta"})
    spans: list[tuple[int, int]] = []
    for _ in range(3):
        ours.record(SERVER, 1.0, series("a"))
        (metric,) = ours.taken()
        (point,) = metric.data.data_points
        spans.append((point.start_time_unix_nano, point.time_unix_nano))
    assert spans[0][1] == spans[1][0]
    assert spans[1][1] == spans[2][0]


def test_series_beyond_the_limit_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LIMIT == 2_000
    monkeypatch.setattr(durations, "LIMIT", 3)
    ours = Buckets({})
    for at in range(6):
        ours.record(SERVER, 1.0, series(str(at)))
    ours.record(SERVER, 1.0, series("1"))
    told = {tuple(p["attributes"].items()): p["count"] for p in points(list(ours.taken()))}
    assert len(told) == 4
    assert told[("otel.metric.overflow", True),] == 3
    assert sum(told.values()) == 7


def test_a_delta_has_series_up_to_the_limit_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "LIMIT", 3)
    ours = Buckets({TEMPORALITY: "delta"})
    for names in ("abc", "def", "abc"):
        for name in names:
            ours.record(SERVER, 1.0, series(name))
        assert [p["attributes"].get(c.TOOL) for p in points(list(ours.taken()))] == list(names)


def test_what_stands_for_a_series_does_until_its_list_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durations, "LIMIT", 2)
    ours = Buckets({})
    ours.record(SERVER, 1.0, series("a"), "a")
    for _ in range(durations.AT_ONCE):
        ours.usual["a"].append(1.0)
    ours.usual["a"].fold()
    assert list(ours.usual["a"]) == []
    ours.record(SERVER, 1.0, series("b"), "b")
    ours.record(SERVER, 1.0, series("c"), "c")
    assert "a" not in ours.usual
    ours.record(SERVER, 1.0, series("a"), "a")
    told = {p["attributes"].get(c.TOOL): p["count"] for p in points(list(ours.taken()))}
    assert told == {"a": durations.AT_ONCE + 2, "b": 1, None: 1}


def test_what_is_told_meanwhile_is_counted_once() -> None:
    ours, count = Buckets({TEMPORALITY: "delta"}), 3 * durations.AT_ONCE + 7
    exported: list[Any] = []
    telling = Thread(
        target=lambda: [ours.record(SERVER, 0.3, series(str(at % 3))) for at in range(count)]
    )
    telling.start()
    while telling.is_alive():
        exported += ours.taken()
    telling.join(30)
    exported += ours.taken()
    assert sum(point["count"] for point in points(exported)) == count


class Taking(MetricExporter):
    """Keeps what it is given."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__()
        self.taken: list[MetricsData] = []
        self.arrived = Event()
        self.ended = False
        self._fails = fails

    def export(self, metrics_data: MetricsData, *_: Any, **__: Any) -> MetricExportResult:
        if self._fails:
            self._fails -= 1
            raise RuntimeError("the collector is away")
        self.arrived.set()
        self.taken.append(metrics_data)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self.ended = True


def exporting(exporter: Taking, ours: Buckets, **environ: str) -> Exporting:
    resource = Resource({"service.name": "armory"})
    return Exporting(exporter, ours, resource, SCOPE, environ)


def test_what_there_is_is_sent_when_it_is_asked_for() -> None:
    exporter, ours = Taking(), Buckets({TEMPORALITY: "delta"})
    sender = exporting(exporter, ours)
    sender.force_flush(1_000)
    assert exporter.taken == []
    for seconds in (1.0, 2.0):
        ours.record(SERVER, seconds, series("a"))
        sender.force_flush(1_000)
        (resource,) = exporter.taken.pop().resource_metrics
        assert resource.resource.attributes["service.name"] == "armory"
        (scoped,) = resource.scope_metrics
        assert scoped.scope == SCOPE
        assert points(list(scoped.metrics))[0]["sum"] == seconds
    sender.shutdown()
    assert exporter.ended


def test_it_is_sent_every_now_and_then_even_when_sending_failed_before() -> None:
    exporter, ours = Taking(fails=1), Buckets({})
    ours.record(SERVER, 1.0, series("a"))
    sender = exporting(exporter, ours, OTEL_METRIC_EXPORT_INTERVAL="1")
    assert exporter.arrived.wait(30)
    sender.shutdown()


def test_an_interval_that_is_none_is_told() -> None:
    with capture_logs() as logs:
        exporting(Taking(), Buckets({}), OTEL_METRIC_EXPORT_INTERVAL="often").shutdown()
    assert [(log["variable"], log["instead"]) for log in logs] == [(INTERVAL, 60_000)]
