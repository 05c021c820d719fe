"""The request that is being served, for those who watch: logs, spans, the audit.

Owns: `Operation` and the context variable that holds it. Set only where something watches; never
imports anything of Armory.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import msgspec


class Operation(msgspec.Struct, eq=False, gc=False):
    """One request of a client while it is served.

    Attributes:
        trace_id, span_id: of its span, 32 and 16 hexadecimal digits, or of the one above it where
            its trace is not kept; empty where there is no trace.
        span: its span, an OpenTelemetry object; None where its trace is not kept.
        passed: (`traceparent`, `tracestate` or None) for what goes upstream, where there is no span
            and the request's `_meta` does not say it.
        new: `traceparent` of a trace that began here and is not kept; empty: of any other.
        baggage: W3C baggage of the HTTP request, where its `_meta` has no trace context.
        upstream: key of the upstream that it went to last, and that answered or failed as
            `failure` says; empty: none.
        failure: `tool_error`, a JSON-RPC code or an error's own code; None: it went well.
    """

    trace_id: str = ""
    span_id: str = ""
    span: Any = None
    passed: tuple[str, str | None] | None = None
    new: str = ""
    baggage: str | None = None
    upstream: str = ""
    failure: str | None = None


CURRENT: ContextVar[Operation | None] = ContextVar("armory_operation", default=None)
"""The request that this task serves; None where nobody watches."""
