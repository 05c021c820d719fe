"""W3C trace context in `_meta` and in HTTP headers.

Owns: reading and writing `traceparent`, `tracestate` and `baggage`. Imports OpenTelemetry, so it is
imported only where telemetry is on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Raw
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, TraceState

from armory.protocol.rawjson import members_or_none, pack, text_of

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
BAGGAGE = "baggage"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LONGEST = 8_192


def parsed(parent: str, state: str | None) -> Span | None:
    """The remote span that a `traceparent` names; None where it names none."""
    found = _FORM.fullmatch(parent.strip()) if len(parent) < 512 else None
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest):
        return None
    trace_id, span_id = int(trace, 16), int(span, 16)
    if not trace_id or not span_id:
        return None
    known = TraceState.from_header([state]) if state and len(state) < _LONGEST else None
    context = SpanContext(trace_id, span_id, True, TraceFlags(int(flags, 16) & 1), known)
    return NonRecordingSpan(context)


def from_meta(meta: Mapping[str, Raw]) -> Span | None:
    """The parent that a request's `_meta` names."""
    parent = text_of(meta, TRACEPARENT) if TRACEPARENT in meta else None
    return None if parent is None else parsed(parent, text_of(meta, TRACESTATE))


def from_headers(headers: Mapping[str, str]) -> Span | None:
    """The parent that an HTTP request's headers name."""
    parent = headers.get(TRACEPARENT)
    return None if parent is None else parsed(parent, headers.get(TRACESTATE))


def traceparent(context: SpanContext) -> str:
    """The header's value for what comes below a span."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def injected(
    params: Mapping[str, Raw], context: SpanContext, baggage: str | None = None
) -> dict[str, Raw]:
    """The parameters with a `_meta` that names the span; the rest of it stays as it is.

    Args:
        params: of a request that goes upstream.
        context: of the span above what the upstream does.
        baggage: put in where `_meta` has none.
    """
    meta = dict(members_or_none(params.get("_meta")) or {})
    meta[TRACEPARENT] = Raw(b'"%b"' % traceparent(context).encode())
    meta.pop(TRACESTATE, None)
    if context.trace_state:
        meta[TRACESTATE] = pack(context.trace_state.to_header())
    if baggage is not None and BAGGAGE not in meta:
        meta[BAGGAGE] = pack(baggage)
    return {**params, "_meta": pack(meta)}
