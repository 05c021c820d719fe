"""The request that is being served, for those who watch: logs, spans, the audit.

Owns: `Operation` and the context variable that holds it. Set only where something watches; never
imports anything of Armory.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any


class Operation:
    """One request of a client while it is served.

    Attributes:
        trace_id, span_id: of its span, 32 and 16 hexadecimal digits, or of the one above it where
            its trace is not kept; empty where there is no trace.
        span: its span, an OpenTelemetry object; None where its trace is not kept.
        passed: (`traceparent`, `tracestate` or None) for what goes upstream, where there is no span
            and the request's `_meta` does not say it.
        baggage: W3C baggage of the HTTP request, where its `_meta` has no trace context.
        upstream: key of the upstream that it went to last; empty: none.
        asked: whether an upstream answered or failed; `failure` says which.
        failure: `tool_error`, a JSON-RPC code or an error's own code; None: it went well.
    """

    __slots__ = (
        "asked",
        "baggage",
        "failure",
        "passed",
        "span",
        "span_id",
        "trace_id",
        "upstream",
    )

    def __init__(self) -> None:
        self.trace_id = ""
        self.span_id = ""
        self.span: Any = None
        self.passed: tuple[str, str | None] | None = None
        self.baggage: str | None = None
        self.upstream = ""
        self.asked = False
        self.failure: str | None = None


CURRENT: ContextVar[Operation | None] = ContextVar("armory_operation", default=None)
"""The request that this task serves; None where nobody watches."""
