"""Spans and durations of requests, from clients and to upstreams, by the conventions.

Owns: `Tracing`, the attributes of spans. `export` decides where spans go. Imports OpenTelemetry, so
it is imported only where telemetry is on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import time_ns
from typing import Any, TypeVar

from msgspec import Raw
from opentelemetry.trace import SpanKind

from armory.observability.operation import CURRENT, Operation
from armory.protocol.rawjson import text_or_none
from armory.telemetry import conventions as c
from armory.telemetry import propagation
from armory.telemetry.conventions import Series, Side
from armory.telemetry.measuring import Durations
from armory.telemetry.propagation import KEPT, TRACEPARENT, Parent
from armory.telemetry.sampling import Sampling
from armory.telemetry.spans import Span, new_id

_NAME_CHARS = 200
T = TypeVar("T")
Named = Callable[[str, Any], tuple[str, dict[str, Any]]]
"""(name, attributes) of a span, of what a request asks; called where there is a span only."""


class Tracing:
    """Creates the spans of one gateway, and measures durations.

    A trace that is not kept has no spans: what goes upstream then names the span of the client,
    where it named one.

    Args:
        ended: takes every span that ended; None: no spans are wanted.
        durations: None: no metrics are wanted.
        sampling: which traces are kept.
        queries: whether spans of retrieval carry the text that was searched for.

    Attributes:
        durations: takes what was measured; None: nobody wants it.
        waiting: as `Sampling.waiting`; None: no spans are wanted.
    """

    def __init__(
        self,
        ended: Callable[[Span], None] | None,
        durations: Durations | None,
        sampling: Sampling,
        *,
        queries: bool,
    ) -> None:
        self._ended = ended
        self.durations = durations
        self._sampling = sampling
        self.waiting = None if ended is None else sampling.waiting
        self.queries = queries

    def server(
        self,
        operation: Operation,
        method: str,
        name: Raw | None,
        meta: Mapping[str, Raw],
        headers: Mapping[str, str],
    ) -> None:
        """Start the span of a client's request. Its parent is the span named in `_meta`, with a
        link to that of the HTTP request; or that of the HTTP request, if `_meta` names none.

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
                operation.baggage = propagation.combined(headers, propagation.BAGGAGE)
                self._below(operation, (_mcp, method, name), around, None, within=False)
                return
        if self._ended is not None:
            self._new(operation, (_mcp, method, name))

    def rest(
        self, operation: Operation, method: str, route: str, headers: Mapping[str, str]
    ) -> None:
        """Start the span of a REST request; its parent is the span that the request's headers name.

        Args:
            operation: takes the span, or what goes upstream where there is none.
            method: of HTTP.
            route: path of what is asked, as a template.
            headers: of the request.
        """
        around = propagation.from_headers(headers)
        if around is not None:
            operation.baggage = propagation.combined(headers, propagation.BAGGAGE)
            self._below(operation, (_http, method, route), around, None, within=False)
        elif self._ended is not None:
            self._new(operation, (_http, method, route))

    def _below(
        self,
        operation: Operation,
        asked: tuple[Named, str, str | Raw | None],
        parent: Parent,
        around: Parent | None,
        *,
        within: bool,
    ) -> None:
        """Continue a trace; `within`: the upstream request already names `parent`."""
        operation.traceparent, operation.plain = parent.traceparent, False
        if self._ended is None:
            if not within:
                operation.passed = (parent.traceparent, parent.state)
        elif self._sampling.keeps(int(parent.trace, 16), parent.sampled):
            span = _begun(SpanKind.SERVER, asked, parent.trace, new_id())
            span.above, span.remote, span.state = parent.span, True, parent.state
            span.link = around
            operation.span, operation.traceparent = span, span.traceparent
        elif parent.sampled or not within:
            unkept = Parent(parent.trace, parent.span, False, parent.state)
            operation.passed = (unkept.traceparent, unkept.state)

    def _new(self, operation: Operation, asked: tuple[Named, str, str | Raw | None]) -> None:
        """Start a trace, with a span if it is kept."""
        operation.traceparent = traceparent = self._sampling.drawn()
        if traceparent.endswith(KEPT):
            operation.plain = False
            operation.span = _root(SpanKind.SERVER, asked, traceparent)
        else:
            operation.new = True

    def client(self, method: str, name: str | None, operation: Operation | None) -> Span | None:
        """Start the span of a request to an upstream, as a child of the client's; None: the trace
        is not kept.
        """
        asked = (_mcp, method, name)
        if self._ended is None:
            return None
        if operation is not None:
            above = operation.span
            return None if above is None else _child(above, SpanKind.CLIENT, asked)
        traceparent = self._sampling.drawn()  # the gateway itself asks
        return _root(SpanKind.CLIENT, asked, traceparent) if traceparent.endswith(KEPT) else None

    async def searched(
        self,
        search: Awaitable[T],
        texts: Sequence[str],
        facts: Callable[[T], dict[str, Any]],
    ) -> T:
        """Run a search in a child span of the current request's, if there is one.

        Args:
            search: the search.
            texts: what is searched for; told only where `queries` allows it.
            facts: attributes, of what was found.
        """
        operation = CURRENT.get()
        above = None if operation is None else operation.span
        if above is None:
            return await search
        span = _child(above, SpanKind.INTERNAL, (_retrieval, "", None))
        failure: str | None = "cancelled"
        attributes: dict[str, Any] = {c.QUERY: list(texts)} if self.queries else {}
        try:
            found = await search
            failure = None
            attributes |= facts(found)
            return found
        except Exception as error:
            failure = getattr(error, "code", None) or type(error).__name__
            raise
        finally:
            self.finish(span, attributes, failure)

    def passed_on(
        self, params: dict[str, Raw], span: Span | None, operation: Operation | None
    ) -> dict[str, Raw]:
        """The parameters of an upstream request, with the parent span in `_meta`: the gateway's
        span, or the client's if the trace is not kept.
        """
        baggage = None if operation is None else operation.baggage
        if span is not None:
            return propagation.injected(params, span.traceparent, span.state, baggage)
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
        span.attributes.update(attributes)
        if failure is not None:
            span.attributes[c.ERROR] = failure
            span.failed, span.why = True, why
        span.ended_ns = time_ns()
        if self._ended is not None:
            self._ended(span)

    def session_ended(self, side: Side, seconds: float, version: str, transport: str) -> None:
        """Record how long a session of the legacy era lasted."""
        if self.durations is not None:
            series = Series("", None, None, None, None, version, transport)
            self.durations.record(c.SESSION_DURATION[side], seconds, series)


def _begun(kind: SpanKind, asked: tuple[Named, str, str | Raw | None], trace: str, id: str) -> Span:
    named, method, of = asked
    name, attributes = named(method, of)
    return Span(name, kind, trace, id, attributes, time_ns())


def _root(kind: SpanKind, asked: tuple[Named, str, str | Raw | None], traceparent: str) -> Span:
    """The first span of a trace, with the ids that were generated for it."""
    return _begun(kind, asked, traceparent[3:35], traceparent[36:52])


def _child(above: Span, kind: SpanKind, asked: tuple[Named, str, str | Raw | None]) -> Span:
    """A child of another span of this process."""
    span = _begun(kind, asked, above.trace, new_id())
    span.above, span.state = above.id, above.state
    return span


def _mcp(method: str, name: str | Raw | None) -> tuple[str, dict[str, Any]]:
    if isinstance(name, Raw):
        name = text_or_none(name)
    method = method[:_NAME_CHARS]
    return method if name is None else f"{method} {name[:_NAME_CHARS]}", {c.METHOD: method}


def _http(method: str, route: str | None) -> tuple[str, dict[str, Any]]:
    return f"{method} {route}", {c.HTTP_METHOD: method, c.HTTP_ROUTE: route}


def _retrieval(_method: str, _name: str | None) -> tuple[str, dict[str, Any]]:
    return c.RETRIEVAL, {c.OPERATION: c.RETRIEVAL}
