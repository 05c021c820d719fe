"""Spans on their way to a collector: the SDK's of those that were written down here.

Owns: their form for the SDK, made in the thread that sends them. Imports OpenTelemetry's SDK, so it
is imported only where telemetry is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags, TraceState

from armory.telemetry.spans import Span

_WELL = Status(StatusCode.UNSET)


class Spans(SpanExporter):
    """Takes `Span`s and has them sent as the SDK's.

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

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """As `SpanExporter.export`, of `Span`s."""
        return self._exporter.export([self._made(span) for span in cast("Sequence[Span]", spans)])

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


def _context(trace: str, span: str, state: TraceState, *, remote: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace, 16), int(span, 16), remote, flags, state)


def _link(trace: str, span: str, sampled: bool, state: str | None) -> Link:
    flags = TraceFlags(sampled)
    return Link(SpanContext(int(trace, 16), int(span, 16), True, flags, _state(state)))


def _state(header: str | None) -> TraceState:
    return TraceState.from_header([header]) if header else TraceState()
