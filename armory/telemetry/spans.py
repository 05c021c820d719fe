"""A span of a trace that is kept.

Owns: `Span`. The SDK's own takes several times as long, with locks and checks that one thread and
the conventions' attributes do not need; `span_export` converts it when it is sent. Imports
OpenTelemetry's interfaces, never its SDK.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

import msgspec
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from armory.telemetry.propagation import KEPT, Parent

_SAMPLED = SpanContext(1, 1, False, TraceFlags(TraceFlags.SAMPLED))


class Span(msgspec.Struct, eq=False):
    """One span.

    Attributes:
        name: as the conventions have it.
        kind: which side of a request, or neither.
        trace: id of its trace, 32 hexadecimal digits.
        id: its own, 16 hexadecimal digits.
        attributes: what is known about it.
        began_ns: when, since 1970.
        above: id of the span above; empty: there is none.
        remote: whether that one is another process's.
        state: `tracestate` of the trace; None: there is none.
        link: another span that belongs to it; None: none does.
        ended_ns: when; 0: it has not.
        failed: whether it was a failure.
        why: description of the failure.
    """

    name: str
    kind: SpanKind
    trace: str
    id: str
    attributes: dict[str, Any]
    began_ns: int
    above: str = ""
    remote: bool = False
    state: str | None = None
    link: Parent | None = None
    ended_ns: int = 0
    failed: bool = False
    why: str = ""
    context: ClassVar[SpanContext] = _SAMPLED
    """No more than the SDK's queue asks for: whether the span is to be sent."""

    @property
    def traceparent(self) -> str:
        """The `traceparent` for its child spans."""
        return f"00-{self.trace}-{self.id}{KEPT}"


def new_id() -> str:
    """A random span id. All zeros would mean "no span"; that happens once in 2**64 times."""
    return os.urandom(8).hex()
