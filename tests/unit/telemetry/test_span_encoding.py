"""Spans are encoded to what the SDK's encoder makes of the same, and sent by its exporter."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind

from armory.telemetry.propagation import Parent
from armory.telemetry.span_encoding import SpanEncoder
from armory.telemetry.span_export import Spans
from armory.telemetry.spans import Span

TRACE, ABOVE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "b7ad6b7169203331"
RESOURCE, SCOPE = Resource({"service.name": "armory", "n": 1}), InstrumentationScope("armory", "1")
FACTS: dict[str, Any] = {"mcp.method.name": "tools/call", "server.port": 80, "text": "abcdef"}


def span(attributes: dict[str, Any] | None = None, **more: Any) -> Span:
    facts = FACTS if attributes is None else attributes
    return Span("tools/call a", SpanKind.SERVER, TRACE, ABOVE, facts, 1_000, ended_ns=2_000, **more)


def of_sdk(*spans: Span) -> list[ReadableSpan]:
    taken = InMemorySpanExporter()
    Spans(taken, RESOURCE, SCOPE).export(spans)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    return list(taken.get_finished_spans())


class Counting:
    """Makes the SDK's spans, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, one: Span) -> ReadableSpan:
        self.count += 1
        return of_sdk(one)[0]


def encoded(*spans: Span) -> tuple[ExportTraceServiceRequest, int]:
    """What is sent, and how many of its spans were left to the SDK."""
    made = Counting()
    encoder = SpanEncoder(made)
    request = ExportTraceServiceRequest.FromString(encoder.request(spans))
    return request, made.count - 1  # one tells resource and scope


@pytest.mark.parametrize(
    "ours",
    [
        span(),
        span(above=OTHER, remote=True, state="v=1,w=2"),
        span(above=OTHER, state="not a state"),
        span(failed=True, why="away"),
        span(failed=True),
        span({}),
        span({"yes": True, "one": 1, "half": 0.5, "text": "é", "long": "x" * 5_000, "least": -1}),
    ],
)
def test_it_is_what_the_sdk_makes(ours: Span) -> None:
    for kind in (SpanKind.SERVER, SpanKind.CLIENT, SpanKind.INTERNAL):
        ours.kind = kind
        assert encoded(ours) == (encode_spans(of_sdk(ours)), 0)


@pytest.mark.parametrize(
    "ours",
    [
        span(link=Parent(TRACE, OTHER, False, "v=1")),
        span({"texts": ["a", "b"], "one": 1}),
        span({"large": 1 << 64, "one": 1}),
        span({"broken": "\ud800", "one": 1}),
    ],
)
def test_what_is_seldom_is_left_to_the_sdk(ours: Span) -> None:
    assert encoded(ours) == (encode_spans(of_sdk(ours)), 1)


def test_values_that_are_equal_are_told_apart() -> None:
    three = [span({"n": value}) for value in (1, True, 1.0)]
    assert encoded(*three, *three) == (encode_spans(of_sdk(*three, *three)), 0)


def test_beyond_the_limits_of_the_environment_the_sdk_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "2")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3")
    for attributes, left in ((FACTS, 1), ({"text": "abcd"}, 1), ({"text": "abc"}, 0)):
        ours = span(attributes)
        assert encoded(ours) == (encode_spans(of_sdk(ours)), left)


class Recorded:
    """The way to a collector: takes what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.success = False

    def export(self, data: bytes) -> Recorded:
        self.sent.append(data)
        return self


def exporter(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[SpanExporter, Recorded]:
    found, way = OTLPSpanExporter("http://127.0.0.1:9/v1/traces", **options), Recorded()
    monkeypatch.setattr(found, "_client", way)
    return found, way


def test_the_sdks_exporter_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    otlp, way = exporter(monkeypatch)
    spans: Any = [span(), span(failed=True)]
    ours = Spans(otlp, RESOURCE, SCOPE)
    assert ours.export(spans) is SpanExportResult.FAILURE
    way.success = True
    assert ours.export(spans) is SpanExportResult.SUCCESS
    expected = encode_spans(of_sdk(*spans))
    assert [ExportTraceServiceRequest.FromString(data) for data in way.sent] == [expected] * 2


def test_what_is_too_large_is_refused_by_the_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    otlp, way = exporter(monkeypatch, max_request_size=10)
    spans: Any = [span()]
    assert Spans(otlp, RESOURCE, SCOPE).export(spans) is SpanExportResult.FAILURE
    assert not way.sent


def test_where_the_sdk_counts_what_it_exports_it_encodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    otlp, way = exporter(monkeypatch)
    ours = Spans(otlp, RESOURCE, SCOPE)
    monkeypatch.setattr(ours, "_encoder", None)
    way.success = True
    spans: Any = [span()]
    assert ours.export(spans) is SpanExportResult.SUCCESS
    assert [ExportTraceServiceRequest.FromString(data) for data in way.sent] == [
        encode_spans(of_sdk(*spans))
    ]
