"""The request that is being served, for logs, spans and the audit.

Owns: `Operation` and the context variable that holds it. Set only where something watches; never
imports anything of Armory.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import msgspec


class Operation(msgspec.Struct, eq=False, gc=False):
    """One request of a client, from its arrival to its answer.

    Attributes:
        traceparent: names its span, or the one above it where its trace is not kept; empty where
            there is no trace.
        span: its span, a `telemetry.spans.Span`; None where its trace is not kept.
        plain: whether it has neither a span nor `passed` or `baggage`.
        new: whether its trace began here and is not kept, so that what goes upstream names it.
        passed: (`traceparent`, `tracestate` or None) for what goes upstream, where there is no span
            and the request's `_meta` does not say it.
        baggage: W3C baggage of the HTTP request, where its `_meta` has no trace context.
        upstream: key of the upstream that it went to last, and that answered or failed as
            `failure` says; empty: none.
        failure: `tool_error`, a JSON-RPC code or an error's own code; None: it went well.
        over: whether it was answered: what it began may go on for ever, as a session does, and
            says nothing of it any more.
    """

    traceparent: str = ""
    span: Any = None
    plain: bool = True
    new: bool = False
    passed: tuple[str, str | None] | None = None
    baggage: str | None = None
    upstream: str = ""
    failure: str | None = None
    over: bool = False

    @property
    def trace_id(self) -> str:
        """Trace id, 32 hexadecimal digits; empty without a trace."""
        return self.traceparent[3:35]

    @property
    def span_id(self) -> str:
        """Id of the span that `traceparent` names, 16 hexadecimal digits; empty without a trace."""
        return self.traceparent[36:52]


CURRENT: ContextVar[Operation | None] = ContextVar("armory_operation", default=None)
"""The request that this task serves; None where nobody watches."""
