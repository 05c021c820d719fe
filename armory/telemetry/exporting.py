"""Exporting the histograms that were counted here to a collector.

Owns: how often they are sent, and the thread that does it. Imports OpenTelemetry's SDK, so it is
imported only where telemetry is on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Event, Lock, Thread

from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from armory.logger import Logger
from armory.telemetry.durations import Buckets

_log = Logger(__name__)
INTERVAL, TIMEOUT = "OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT"


class Exporting:
    """Exports the histograms at intervals, in its own thread.

    Args:
        exporter: sends them.
        buckets: has them.
        resource: who it is about.
        scope: name and version of what measures.
        environ: says how often, and how long sending may take.
    """

    def __init__(
        self,
        exporter: MetricExporter,
        buckets: Buckets,
        resource: Resource,
        scope: InstrumentationScope,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._exporter = exporter
        self._buckets = buckets
        self._resource = resource
        self._scope = scope
        self._every_s = _milliseconds(environ, INTERVAL, 60_000) / 1_000
        self._timeout_ms = _milliseconds(environ, TIMEOUT, 30_000)
        self._sending = Lock()
        self._ended = Event()
        self._thread = Thread(target=self._run, name="export metrics", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self.force_flush(self._timeout_ms)

    def force_flush(self, timeout_millis: float) -> None:
        """Export now."""
        with self._sending:
            metrics = self._buckets.taken()
            if not metrics:
                return
            scoped = ScopeMetrics(self._scope, metrics, "")
            about = ResourceMetrics(self._resource, [scoped], self._resource.schema_url)
            try:
                self._exporter.export(MetricsData([about]), timeout_millis=timeout_millis)
            except Exception as error:  # noqa: BLE001 the next ones shall be sent all the same
                _log.error("metrics_not_exported", error=repr(error), exc_info=True)

    def shutdown(self) -> None:
        """Stop exporting."""
        self._ended.set()
        self._exporter.shutdown()
        self._thread.join()


def _milliseconds(environ: Mapping[str, str], variable: str, default: float) -> float:
    text = environ.get(variable, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if 0.0 < value < float("inf"):
        return value
    _log.warning("milliseconds_unknown", variable=variable, value=text, instead=default)
    return default
