"""Encodes spans for export, from those that were recorded here.

Owns: the bytes of a span, the same as the SDK's encoder makes in ten times as long: most attributes
are those of the spans before, so their bytes are kept, and in Protobuf a message is the join of its
parts. What is seldom (links, lists, limits that are passed) is left to the SDK. Imports
OpenTelemetry's SDK, so it is imported only where telemetry is on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2 as otlp
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.trace import SpanKind, TraceState

from armory.telemetry.spans import Span

_KINDS = {
    SpanKind.INTERNAL: otlp.Span.SPAN_KIND_INTERNAL,
    SpanKind.SERVER: otlp.Span.SPAN_KIND_SERVER,
    SpanKind.CLIENT: otlp.Span.SPAN_KIND_CLIENT,
}
_KEPT = 1_024
"""Attributes and trace states whose encoded bytes are kept."""
_KEPT_CHARS = 200
_LOCAL = otlp.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE = _LOCAL | otlp.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_FAILED = otlp.Status.STATUS_CODE_ERROR
Plain = str | bool | int | float


class SpanEncoder:
    """Encodes the spans of one process, in one thread at a time.

    Args:
        sdk_span: makes the SDK's span of one, with resource and scope.
    """

    def __init__(self, sdk_span: Callable[[Span], ReadableSpan]) -> None:
        self._sdk_span = sdk_span
        limits = SpanLimits()
        self._most = limits.max_span_attributes
        self._longest = limits.max_span_attribute_length
        self._attribute = lru_cache(_KEPT, typed=True)(_attribute)  # 1, 1.0 and True are others
        self._frame: ExportTraceServiceRequest | None = None

    def request(self, spans: Sequence[Span]) -> bytes:
        """The export request for `spans`, at least one, of the same resource and scope."""
        if self._frame is None:
            self._frame = encode_spans([self._sdk_span(spans[0])])
            del self._frame.resource_spans[0].scope_spans[0].spans[:]
        request = ExportTraceServiceRequest()
        request.CopyFrom(self._frame)
        sent = request.resource_spans[0].scope_spans[0].spans
        for span in spans:
            sent.add().MergeFromString(self.span(span))
        return request.SerializePartialToString()

    def span(self, span: Span) -> bytes:
        """One span."""
        attributes = self._attributes(span)
        if attributes is None or span.link is not None:
            encoded = encode_spans([self._sdk_span(span)])
            return encoded.resource_spans[0].scope_spans[0].spans[0].SerializePartialToString()
        head = otlp.Span(
            trace_id=bytes.fromhex(span.trace),
            span_id=bytes.fromhex(span.id),
            trace_state=_state(span.state) if span.state else "",
            parent_span_id=bytes.fromhex(span.above),
            name=span.name,
            kind=_KINDS[span.kind],
            start_time_unix_nano=span.began_ns,
            end_time_unix_nano=span.ended_ns,
            status=otlp.Status(code=_FAILED, message=span.why) if span.failed else otlp.Status(),
            flags=_REMOTE if span.above and span.remote else _LOCAL,
        )
        return head.SerializePartialToString() + b"".join(attributes)

    def _attributes(self, span: Span) -> list[bytes] | None:
        """The encoded attributes; None: some are not plain values, or exceed a limit."""
        most, longest = self._most, self._longest
        if most is not None and len(span.attributes) > most:
            return None
        found: list[bytes] = []
        for name, value in span.attributes.items():
            if not isinstance(value, Plain):
                return None
            size = len(value) if isinstance(value, str) else 0
            if longest is not None and size > longest:
                return None
            try:
                encode = _attribute if size > _KEPT_CHARS else self._attribute
                found.append(encode(name, value))
            except ValueError:  # an integer of more than 64 bits, text that is not Unicode
                return None
        return found


def _attribute(name: str, value: Plain) -> bytes:
    """Encode one attribute, as a span that has nothing else.

    Raises:
        ValueError: the value cannot be encoded.
    """
    if isinstance(value, str):
        given = AnyValue(string_value=value)
    elif isinstance(value, bool):
        given = AnyValue(bool_value=value)
    elif isinstance(value, int):
        given = AnyValue(int_value=value)
    else:
        given = AnyValue(double_value=value)
    return otlp.Span(attributes=[KeyValue(key=name, value=given)]).SerializePartialToString()


@lru_cache(_KEPT)
def _state(header: str) -> str:
    """`tracestate` as the SDK parses it."""
    return ",".join(f"{key}={value}" for key, value in TraceState.from_header([header]).items())
