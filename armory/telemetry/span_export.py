"""Exporting spans: converts Armory's spans to the SDK's, or to the bytes that it would send.

Owns: both conversions, made in the thread that sends the spans. Imports OpenTelemetry's SDK, so it
is imported only where telemetry is on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.environment_variables import OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags, TraceState

from armory.telemetry.span_encoding import SpanEncoder
from armory.telemetry.spans import Span

_WELL = Status(StatusCode.UNSET)


class Spans(SpanExporter):
    """Exports `Span`s with an exporter of the SDK.

    Args:
        exporter: sends them.
        resource: who they are about.
        scope: name and version of what made them.
    """

    def __init__(
        self, exporter: SpanExporter, resource: Resource, scope: InstrumentationScope
    ) -> None:
        self._exporter = exporter
        self._resource = resource
        self._scope = scope
        self._limits = SpanLimits()
        self._encoder = SpanEncoder(self._made)
        self._send, self._most_bytes = _sends_bytes(exporter)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """As `SpanExporter.export`, of `Span`s."""
        ours = cast("Sequence[Span]", spans)
        if self._send is not None and ours:
            encoded = self._encoder.request(ours)
            if len(encoded) <= self._most_bytes:
                sent = self._send(encoded)
                return SpanExportResult.SUCCESS if sent.success else SpanExportResult.FAILURE
        return self._exporter.export([self._made(span) for span in ours])

    def shutdown(self) -> None:
        """As `SpanExporter.shutdown`."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """As `SpanExporter.force_flush`."""
        return self._exporter.force_flush(timeout_millis)

    def _made(self, span: Span) -> ReadableSpan:
        state, limits = _state(span.state), self._limits
        attributes: Any = BoundedAttributes(
            limits.max_span_attributes,
            span.attributes,
            immutable=True,
            max_value_len=limits.max_span_attribute_length,
        )
        above = _context(span.trace, span.above, state, remote=span.remote) if span.above else None
        link = span.link
        links = () if link is None else (_link(link.trace, link.span, link.sampled, link.state),)
        return ReadableSpan(
            span.name,
            _context(span.trace, span.id, state, remote=False),
            above,
            self._resource,
            attributes,
            links=links,
            kind=span.kind,
            status=Status(StatusCode.ERROR, span.why or None) if span.failed else _WELL,
            start_time=span.began_ns,
            end_time=span.ended_ns,
            instrumentation_scope=self._scope,
        )


def _sends_bytes(exporter: SpanExporter) -> tuple[Callable[[bytes], Any] | None, int]:
    """(function that sends encoded spans, the most bytes at once); None: the exporter is of another
    kind or version, or the SDK counts its exports.
    """
    counts = os.environ.get(OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED, "").strip().lower() == "true"
    send = getattr(getattr(exporter, "_client", None), "export", None)
    most = getattr(exporter, "_max_request_size", None)
    if counts or not callable(send) or not isinstance(most, int):
        return None, 0
    return send, most if most > 0 else sys.maxsize


def _context(trace: str, span: str, state: TraceState, *, remote: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace, 16), int(span, 16), remote, flags, state)


def _link(trace: str, span: str, sampled: bool, state: str | None) -> Link:
    flags = TraceFlags(sampled)
    return Link(SpanContext(int(trace, 16), int(span, 16), True, flags, _state(state)))


def _state(header: str | None) -> TraceState:
    return TraceState.from_header([header]) if header else TraceState()
