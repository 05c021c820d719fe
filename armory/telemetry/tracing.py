"""Spans and durations of requests, on both sides, by the conventions.

Owns: `Tracing`, what a span is given when it begins and ends. Where spans go is `export`'s affair.
Imports OpenTelemetry, so it is imported only where telemetry is on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Raw
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)

from armory.observability.operation import CURRENT, Operation
from armory.protocol.rawjson import text_or_none
from armory.telemetry import conventions as c
from armory.telemetry import propagation
from armory.telemetry.conventions import Series, Side
from armory.telemetry.measuring import Durations
from armory.telemetry.propagation import KEPT, TRACEPARENT, Parent
from armory.telemetry.sampling import DrawnIds, Sampling

_ROOT = Context()
_NAME_CHARS = 200
T = TypeVar("T")
Named = Callable[[str, Any], tuple[str, dict[str, Any]]]
"""(name, attributes) of a span, of what a request asks; called where there is a span only."""


class Tracing:
    """Makes the spans of one gateway, and measures their durations.

    A trace that is not kept has no spans: what goes upstream then names the span of the client,
    where it named one.

    Args:
        tracer: keeps every span that it is asked for; None: no spans are wanted.
        durations: None: no metrics are wanted.
        sampling: which traces are kept.
        ids: where `tracer` takes ids from.
        queries: whether spans of retrieval carry the text that was searched for.

    Attributes:
        durations: takes what was measured; None: nobody wants it.
        waiting: as `Sampling.waiting`; None: no spans are wanted.
    """

    def __init__(
        self,
        tracer: Tracer | None,
        durations: Durations | None,
        sampling: Sampling,
        ids: DrawnIds,
        *,
        queries: bool,
    ) -> None:
        self._tracer = tracer
        self.durations = durations
        self._sampling = sampling
        self._ids = ids
        self.waiting = None if tracer is None else sampling.waiting
        self.queries = queries

    def server(
        self,
        operation: Operation,
        method: str,
        name: Raw | None,
        meta: Mapping[str, Raw],
        headers: Mapping[str, str],
    ) -> None:
        """Begin the span of a client's request: below the one that its `_meta` names, with a link
        to the HTTP request's; below that one where `_meta` names none.

        Args:
            operation: takes the span, or what goes upstream where there is none.
            method: what is asked.
            name: the tool or prompt, as it came.
            meta: of the request.
            headers: of the HTTP request; empty elsewhere.
        """
        if TRACEPARENT in meta or TRACEPARENT in headers:  # most requests have neither
            around = propagation.from_headers(headers)
            parent = propagation.from_meta(meta)
            if parent is not None:
                self._below(operation, (_mcp, method, name), parent, around, within=True)
                return
            if around is not None:
                operation.baggage = headers.get(propagation.BAGGAGE)
                self._below(operation, (_mcp, method, name), around, None, within=False)
                return
        if self._tracer is not None:
            self._new(self._tracer, operation, (_mcp, method, name))

    def rest(
        self, operation: Operation, method: str, route: str, headers: Mapping[str, str]
    ) -> None:
        """Begin the span of a REST request: below the one that the request's headers name.

        Args:
            operation: takes the span, or what goes upstream where there is none.
            method: of HTTP.
            route: path of what is asked, as a template.
            headers: of the request.
        """
        around = propagation.from_headers(headers)
        if around is not None:
            operation.baggage = headers.get(propagation.BAGGAGE)
            self._below(operation, (_http, method, route), around, None, within=False)
        elif self._tracer is not None:
            self._new(self._tracer, operation, (_http, method, route))

    def _below(
        self,
        operation: Operation,
        asked: tuple[Named, str, str | Raw | None],
        parent: Parent,
        around: Parent | None,
        *,
        within: bool,
    ) -> None:
        """Go on with a trace; `within`: what goes upstream names `parent` already."""
        operation.traceparent, operation.plain = parent.traceparent, False
        if self._tracer is None:
            if not within:
                operation.passed = (parent.traceparent, parent.state)
        elif self._sampling.keeps(int(parent.trace, 16), parent.sampled):
            links = None if around is None else [Link(_remote(around))]
            above = NonRecordingSpan(_remote(parent))
            span = _start(self._tracer, SpanKind.SERVER, asked, above, links)
            operation.span, operation.traceparent = span, _traceparent(span)
        elif parent.sampled or not within:
            unkept = Parent(parent.trace, parent.span, False, parent.state)
            operation.passed = (unkept.traceparent, unkept.state)

    def _new(
        self, tracer: Tracer, operation: Operation, asked: tuple[Named, str, str | Raw | None]
    ) -> None:
        """Begin a trace, with a span where it is kept."""
        operation.traceparent = traceparent = self._sampling.drawn()
        if not traceparent.endswith(KEPT):
            operation.new = True
            return
        operation.plain = False
        operation.span = span = self._root(tracer, SpanKind.SERVER, asked, traceparent)
        operation.traceparent = _traceparent(span)

    def _root(
        self,
        tracer: Tracer,
        kind: SpanKind,
        asked: tuple[Named, str, str | Raw | None],
        traceparent: str,
    ) -> Span:
        """The first span of a trace, under the id that was drawn for it."""
        self._ids.drawn = int(traceparent[3:35], 16)
        span = _start(tracer, kind, asked, None, None)
        self._ids.drawn = 0
        return span

    def client(self, method: str, name: str | None, operation: Operation | None) -> Span | None:
        """Begin the span of a request toward an upstream, below the client's; None: its trace is
        not kept.
        """
        above = None if operation is None else operation.span
        if self._tracer is None or (operation is not None and above is None):
            return None
        if above is not None:
            return _start(self._tracer, SpanKind.CLIENT, (_mcp, method, name), above, None)
        traceparent = self._sampling.drawn()  # the gateway itself asks
        if not traceparent.endswith(KEPT):
            return None
        return self._root(self._tracer, SpanKind.CLIENT, (_mcp, method, name), traceparent)

    async def searched(
        self,
        search: Awaitable[T],
        texts: Sequence[str],
        facts: Callable[[T], dict[str, Any]],
    ) -> T:
        """Search, within a span below that of the request which this task serves, if it has one.

        Args:
            search: the search.
            texts: what is searched for; told only where `queries` allows it.
            facts: attributes, of what was found.
        """
        operation = CURRENT.get()
        above = None if operation is None else operation.span
        if above is None or self._tracer is None:
            return await search
        span = _start(self._tracer, SpanKind.INTERNAL, (_retrieval, "", None), above, None)
        failure: str | None = "cancelled"
        told: dict[str, Any] = {c.QUERY: list(texts)} if self.queries else {}
        try:
            found = await search
            failure = None
            told |= facts(found)
            return found
        except Exception as error:
            failure = getattr(error, "code", None) or type(error).__name__
            raise
        finally:
            self.finish(span, told, failure)

    def passed_on(
        self, params: dict[str, Raw], span: Span | None, operation: Operation | None
    ) -> dict[str, Raw]:
        """The parameters of a request that goes upstream, with a `_meta` that names what is above
        it: the span, or where its trace is not kept, what the client named.
        """
        baggage = None if operation is None else operation.baggage
        if span is not None:
            above = span.get_span_context().trace_state
            state = above.to_header() if above else None
            return propagation.injected(params, _traceparent(span), state, baggage)
        if operation is None:
            return params
        if operation.new:
            return propagation.injected(params, operation.traceparent, None, baggage)
        if operation.passed is None:
            return params
        return propagation.injected(params, *operation.passed, baggage)

    def finish(
        self, span: Span, attributes: Mapping[str, Any], failure: str | None, why: str = ""
    ) -> None:
        """End a span.

        Args:
            span: to be ended.
            attributes: everything about it but the failure.
            failure: its `error.type`; None: it went well.
            why: description of the failure.
        """
        span.set_attributes(attributes)
        if failure is not None:
            span.set_attribute(c.ERROR, failure)
            span.set_status(StatusCode.ERROR, why or None)
        span.end()

    def session_ended(self, side: Side, seconds: float, version: str, transport: str) -> None:
        """Note how long a session of the legacy era lasted."""
        if self.durations is not None:
            series = Series("", None, None, None, None, version, transport)
            self.durations.record(c.SESSION_DURATION[side], seconds, series)


def _start(
    tracer: Tracer,
    kind: SpanKind,
    asked: tuple[Named, str, str | Raw | None],
    parent: Span | None,
    links: list[Link] | None,
) -> Span:
    named, method, of = asked
    name, attributes = named(method, of)
    context = _ROOT if parent is None else set_span_in_context(parent, _ROOT)
    return tracer.start_span(name, context, kind, attributes, links)


def _traceparent(span: Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


def _remote(parent: Parent) -> SpanContext:
    return SpanContext(
        int(parent.trace, 16),
        int(parent.span, 16),
        True,
        TraceFlags(parent.sampled),
        TraceState.from_header([parent.state]) if parent.state else None,
    )


def _mcp(method: str, name: str | Raw | None) -> tuple[str, dict[str, Any]]:
    if isinstance(name, Raw):
        name = text_or_none(name)
    method = method[:_NAME_CHARS]
    return method if name is None else f"{method} {name[:_NAME_CHARS]}", {c.METHOD: method}


def _http(method: str, route: str | None) -> tuple[str, dict[str, Any]]:
    return f"{method} {route}", {c.HTTP_METHOD: method, c.HTTP_ROUTE: route}


def _retrieval(_method: str, _name: str | None) -> tuple[str, dict[str, Any]]:
    return c.RETRIEVAL, {c.OPERATION: c.RETRIEVAL}
