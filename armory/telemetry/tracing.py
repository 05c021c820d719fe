"""Spans and durations of requests, on both sides, by the conventions.

Owns: `Tracing`, what a span is given when it begins and ends. Where spans go is `export`'s affair.
Imports OpenTelemetry, so it is imported only where telemetry is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw
from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from armory.observability.operation import Operation
from armory.telemetry import conventions as c
from armory.telemetry import propagation
from armory.telemetry.conventions import Series, Side

_ROOT = Context()
_NAME_CHARS = 200
_SERIES = 10_000
Attributes = dict[str, Any]


class Tracing:
    """Makes the spans of one gateway, and measures their durations.

    Args:
        tracer: None: no spans are wanted.
        meter: None: no metrics are wanted.
        queries: whether spans of retrieval carry the text that was searched for.
    """

    def __init__(self, tracer: Tracer | None, meter: Meter | None, *, queries: bool) -> None:
        self._tracer = tracer
        self.queries = queries
        self._durations: dict[str, Any] = {}
        self._series: dict[Series, Attributes] = {}
        if meter is not None:
            for name in (*c.DURATION.values(), *c.SESSION_DURATION.values()):
                self._durations[name] = meter.create_histogram(
                    name,
                    unit="s",
                    description="Duration, as the MCP semantic conventions define it.",
                    explicit_bucket_boundaries_advisory=c.BOUNDARIES_S,
                )

    def server(
        self,
        operation: Operation,
        method: str,
        name: str | None,
        meta: Mapping[str, Raw],
        headers: Mapping[str, str],
    ) -> None:
        """Begin the span of a client's request: below the one that its `_meta` names, with a link
        to the HTTP request's; below that one where `_meta` names none.

        Args:
            operation: takes the span.
            method: what is asked.
            name: the tool or prompt.
            meta: of the request.
            headers: of the HTTP request; empty elsewhere.
        """
        around = propagation.from_headers(headers) if headers else None
        parent = propagation.from_meta(meta)
        links = None
        if parent is None and around is not None:
            parent = around
            operation.baggage = headers.get(propagation.BAGGAGE)
        elif around is not None:
            links = [Link(around.get_span_context())]
        span = operation.span = self._start(SpanKind.SERVER, method, name, parent, links)
        context = span.get_span_context()
        if context.is_valid:
            operation.trace_id = f"{context.trace_id:032x}"
            operation.span_id = f"{context.span_id:016x}"

    def client(self, method: str, name: str | None, parent: Span | None) -> Span:
        """Begin the span of a request toward an upstream, below the client's."""
        if parent is not None and not parent.is_recording():
            return parent  # not sampled: what goes upstream names the span that was not, either
        return self._start(SpanKind.CLIENT, method, name, parent, None)

    def retrieval(self, parent: Span | None) -> Span:
        """Begin the span of a search, below the client's."""
        if self._tracer is None or (parent is not None and not parent.is_recording()):
            return INVALID_SPAN
        context = _ROOT if parent is None else set_span_in_context(parent, _ROOT)
        return self._tracer.start_span(
            c.RETRIEVAL, context, SpanKind.INTERNAL, {c.OPERATION: c.RETRIEVAL}
        )

    def _start(
        self,
        kind: SpanKind,
        method: str,
        name: str | None,
        parent: Span | None,
        links: list[Link] | None,
    ) -> Span:
        if self._tracer is None:
            return INVALID_SPAN if parent is None else parent
        method = method[:_NAME_CHARS]
        title = method if name is None else f"{method} {name[:_NAME_CHARS]}"
        context = _ROOT if parent is None else set_span_in_context(parent, _ROOT)
        return self._tracer.start_span(title, context, kind, {c.METHOD: method}, links)

    def measured(self, side: Side, seconds: float, key: Series) -> None:
        """Note how long a request took, where it was measured."""
        histogram = self._durations.get(c.DURATION[side])
        if histogram is None:
            return
        labels = self._series.get(key)
        if labels is None:
            if len(self._series) >= _SERIES:
                self._series.clear()
            labels = self._series[key] = _labels(key)
        histogram.record(seconds, labels, _ROOT)

    def passed_on(self, params: dict[str, Raw], span: Span, baggage: str | None) -> dict[str, Raw]:
        """The parameters of a request that goes upstream, with a `_meta` that names the span."""
        context = span.get_span_context()
        return propagation.injected(params, context, baggage) if context.is_valid else params

    def finish(
        self, span: Span, attributes: Mapping[str, Any], failure: str | None, why: str = ""
    ) -> None:
        """End a span.

        Args:
            span: to be ended.
            attributes: everything about it but the failure.
            failure: its `error.type`; None: it went well.
            why: description of the failure.
        """
        if not span.is_recording():
            return
        span.set_attributes(attributes)
        if failure is not None:
            span.set_attribute(c.ERROR, failure)
            span.set_status(StatusCode.ERROR, why or None)
        span.end()

    def session_ended(self, side: Side, seconds: float, version: str, transport: str) -> None:
        """Note how long a session of the legacy era lasted."""
        histogram = self._durations.get(c.SESSION_DURATION[side])
        if histogram is not None:
            histogram.record(seconds, {c.VERSION: version, c.TRANSPORT: transport}, _ROOT)


def _labels(series: Series) -> Attributes:
    """Attributes of a metric; what is not there has none."""
    kind, transport = series.kind, series.transport
    found: Attributes = {c.METHOD: series.method, c.TRANSPORT: transport}
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
