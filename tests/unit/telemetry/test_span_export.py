"""Spans that were written down here are sent as the SDK's own would be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from armory.telemetry.propagation import Parent
from armory.telemetry.span_export import Spans
from armory.telemetry.spans import Span, new_id

TRACE, ABOVE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "b7ad6b7169203331"
RESOURCE = Resource({"service.name": "armory"})
FACTS: dict[str, Any] = {"mcp.method.name": "tools/call", "server.port": 80, "text": "abcdef"}


def sent(span: Span) -> ReadableSpan:
    """The span as it reaches the collector's exporter."""
    taken = InMemorySpanExporter()
    queue = BatchSpanProcessor(Spans(taken, RESOURCE, InstrumentationScope("armory", "1")))
    queue.on_end(span)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    assert queue.force_flush(10_000)
    queue.shutdown()
    (found,) = taken.get_finished_spans()
    return found


def of_sdk(*, failed: bool, linked: bool) -> ReadableSpan:
    """A span below another process's, as the SDK makes it."""
    taken = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    queue = BatchSpanProcessor(taken)
    provider.add_span_processor(queue)

    def remote(id: str, flags: int) -> SpanContext:
        state = TraceState.from_header(["v=1"])
        return SpanContext(int(TRACE, 16), int(id, 16), True, TraceFlags(flags), state)

    around = set_span_in_context(NonRecordingSpan(remote(ABOVE, 1)), Context())
    links = [Link(remote(OTHER, 0))] if linked else None
    tracer = provider.get_tracer("armory", "1")
    span = tracer.start_span("tools/call a", around, SpanKind.SERVER, FACTS, links, 1_000)
    if failed:
        span.set_status(StatusCode.ERROR, "away")
    span.end(2_000)
    assert queue.force_flush(10_000)
    provider.shutdown()
    (found,) = taken.get_finished_spans()
    return found


def encoded(span: ReadableSpan) -> bytes:
    """The span as it goes over the wire, but for its own id, which is drawn."""
    message = encode_spans([span])
    message.resource_spans[0].scope_spans[0].spans[0].span_id = b""
    return message.SerializeToString(deterministic=True)


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_they_are_what_the_sdk_makes_of_the_same(failed: bool, linked: bool) -> None:
    ours = Span("tools/call a", SpanKind.SERVER, TRACE, new_id(), dict(FACTS), 1_000)
    ours.above, ours.remote, ours.state, ours.ended_ns = ABOVE, True, "v=1", 2_000
    ours.failed, ours.why = failed, "away" if failed else ""
    ours.link = Parent(TRACE, OTHER, False, "v=1") if linked else None
    assert encoded(sent(ours)) == encoded(of_sdk(failed=failed, linked=linked))


def test_the_first_span_of_a_trace_has_none_above() -> None:
    ours = Span("a", SpanKind.CLIENT, TRACE, ABOVE, {}, 1_000, ended_ns=2_000)
    found = json.loads(sent(ours).to_json())
    assert found["parent_id"] is None
    assert (found["context"]["trace_id"], found["context"]["span_id"]) == (
        f"0x{TRACE}",
        f"0x{ABOVE}",
    )
    assert ours.traceparent == f"00-{TRACE}-{ABOVE}-01"


def test_the_limits_of_the_environment_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "2")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3")
    ours = Span("a", SpanKind.CLIENT, TRACE, ABOVE, dict(FACTS), 1_000, ended_ns=2_000)
    assert dict(sent(ours).attributes or {}) == {"server.port": 80, "text": "abc"}
