"""The pool and the retriever with tracing and metrics: a span for each upstream request and each
search.

Owns: `ObservedPool`, `ObservedRetriever`, which stand in for the plain ones only where something
watches, so that nothing watched costs nothing; how long upstream sessions last. Never imports a
transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from armory.domain.catalog import ServerLists
from armory.domain.query import Query, VisibleSet
from armory.domain.results import Selection
from armory.errors import ArmoryError
from armory.gateway.ports import Pool, Retriever
from armory.gateway.results.answers import succeeded
from armory.observability.operation import CURRENT, Operation
from armory.protocol.jsonrpc import code_of
from armory.protocol.link import NOWHERE, UNSENT, Call, ClientChannel, Hop, Owner, Params, Reply
from armory.protocol.methods import REQUESTS
from armory.protocol.rawjson import text_of
from armory.protocol.session_events import Ended, SessionEvent
from armory.protocol.versions import Era
from armory.telemetry import conventions as c
from armory.telemetry.measuring import AT_ONCE

if TYPE_CHECKING:
    from armory.telemetry.measuring import Durations
    from armory.telemetry.spans import Span
    from armory.telemetry.tracing import Tracing

_DURATION = c.DURATION["client"]
Address = tuple[str | None, int | None]
"""Host and port of an upstream; both None for a process."""


class ObservedPool:
    """A pool that records spans and durations.

    Args:
        pool: does the work.
        tracing: makes spans; None: only the operation records where its request went.
        address: where an upstream is.
    """

    def __init__(
        self, pool: Pool, tracing: Tracing | None, address: Callable[[str], Address]
    ) -> None:
        self._pool = pool
        self._tracing = tracing
        self._durations = None if tracing is None else tracing.durations
        self._usual = None if self._durations is None else self._durations.usual
        self._address = address

    async def request(  # noqa: C901 one function: what is run once a call is found in no cache
        self, server: str, owner: Owner, call: Call
    ) -> Reply:
        """As `Pool.request`."""
        operation = CURRENT.get()
        span = None
        if operation is not None:
            operation.upstream = server
        if operation is not None and operation.plain and "_meta" not in call.params:
            if operation.new:  # the link need not open a `_meta` made for it
                call.traceparent = operation.traceparent
        elif self._tracing is not None:
            span = _begun(self._tracing, operation, call)
        usual = self._usual
        if usual is not None:
            call.hop = NOWHERE
        started = perf_counter()
        try:
            reply = await self._pool.request(server, owner, call)
        except BaseException as error:
            self._ended(server, call, operation, span, perf_counter() - started, error)
            raise
        if span is None and (reply.well or succeeded(reply)):
            if operation is not None:
                operation.failure = None
            if usual is None:
                return reply
            seconds = perf_counter() - started
            observed = usual.get((call.hop, call.method, call.name_header))
            if observed is not None:
                observed.append(seconds)
                if len(observed) >= AT_ONCE:
                    observed.fold()
                return reply
        self._ended(server, call, operation, span, perf_counter() - started, reply)
        return reply

    def _ended(
        self,
        server: str,
        call: Call,
        operation: Operation | None,
        span: Span | None,
        seconds: float,
        how: Reply | BaseException,
    ) -> None:
        """Record a request that has no metric series yet, that failed, or that has a span."""
        failure, status, why = _outcome(how)
        if operation is not None:
            operation.failure = failure
        hop = call.hop
        if hop is None:
            return  # nobody measures
        if hop is NOWHERE:
            hop = Hop(None, *self._address(server))
        if self._durations is not None:
            _measured(self._durations, seconds, call, hop, failure, status)
        if span is not None and self._tracing is not None:
            self._tracing.finish(span, _facts(call, status, hop), failure, why)

    async def set_subscriptions(
        self, server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        """As `Pool.set_subscriptions`."""
        await self._pool.set_subscriptions(server, owner, uris, again)

    async def listen(self, server: str, owner: Owner, call: Call) -> Reply:
        """As `Pool.listen`."""
        return await self._pool.listen(server, owner, call)

    async def fetch_lists(
        self, server: str, owner: Owner, capabilities: Mapping[str, Any] | None = None
    ) -> ServerLists:
        """As `Pool.fetch_lists`."""
        return await self._pool.fetch_lists(server, owner, capabilities)

    async def fetch_lists_for(
        self, server: str, capabilities: Mapping[str, Any], *, handshake: bool = False
    ) -> ServerLists:
        """As `Pool.fetch_lists_for`."""
        return await self._pool.fetch_lists_for(server, capabilities, handshake=handshake)

    def key(self, server: str, owner: Owner) -> str:
        """As `Pool.key`."""
        return self._pool.key(server, owner)

    async def settle(self, server: str, owner: Owner) -> None:
        """As `Pool.settle`."""
        await self._pool.settle(server, owner)

    async def release_session(self, session_id: str) -> None:
        """As `Pool.release_session`."""
        await self._pool.release_session(session_id)

    async def notify(self, server: str, owner: Owner, method: str, params: Params) -> None:
        """As `Pool.notify`."""
        await self._pool.notify(server, owner, method, params)

    async def roots_changed(self, owner: Owner, client: ClientChannel, params: Params) -> None:
        """As `Pool.roots_changed`."""
        await self._pool.roots_changed(owner, client, params)

    def log_level_changed(self, owner: Owner, level: str) -> None:
        """As `Pool.log_level_changed`."""
        self._pool.log_level_changed(owner, level)

    def announces(self, server: str, owner: Owner) -> bool:
        """As `Pool.announces`."""
        return self._pool.announces(server, owner)

    def era(self, server: str) -> Era | None:
        """As `Pool.era`."""
        return self._pool.era(server)

    def may_shake_hands(self, server: str) -> bool:
        """As `Pool.may_shake_hands`."""
        return self._pool.may_shake_hands(server)

    def servers(self) -> list[str]:
        """As `Pool.servers`."""
        return self._pool.servers()


def _outcome(how: Reply | BaseException) -> tuple[str | None, str | None, str]:
    """(`error.type` or None, code of the JSON-RPC error or None, description) of a request."""
    if isinstance(how, ArmoryError):
        return how.code, None, how.message
    if isinstance(how, asyncio.CancelledError):
        return "cancelled", None, ""
    if isinstance(how, BaseException):
        return type(how).__name__, None, ""
    return failure_of(how), None if how.error is None else str(code_of(how.error)), ""


def failure_of(reply: Reply) -> str | None:
    """`error.type` of an answer; None: it is no error."""
    if reply.error is not None:
        return str(code_of(reply.error))
    return None if succeeded(reply) else c.TOOL_ERROR


def _begun(tracing: Tracing, operation: Operation | None, call: Call) -> Span | None:
    """Begin the span of a call, if its trace is sampled, and propagate the trace
    context upstream.
    """
    span = None
    if operation is None or operation.span is not None:
        kind, name = _about(call)
        span = tracing.client(call.method, None if kind == "resource" else name, operation)
    if span is not None:
        call.hop, call.sent = NOWHERE, UNSENT
    if span is None or span.state or "_meta" in call.params or (operation and operation.baggage):
        call.params = tracing.passed_on(call.params, span, operation)
    else:  # the link need not open a `_meta` made for it
        call.traceparent = span.traceparent
    return span


def _about(call: Call) -> tuple[c.Kind | None, str | None]:
    """(kind, name) of the tool, prompt or resource that a call is about."""
    target = c.TARGETS.get(call.method)
    if target is None:
        return None, None
    return target[1], call.name_header or text_of(call.params, target[0])


def _measured(
    durations: Durations,
    seconds: float,
    call: Call,
    hop: Hop,
    failure: str | None,
    status: str | None,
) -> None:
    """Record a request's duration; the series of a common kind is cached for the next one."""
    kind, about = _about(call)
    if kind == "resource":
        about = None
    transport = "pipe" if hop.host is None else "tcp"
    known = call.method in REQUESTS
    method = call.method if known else c.OTHER
    series = c.Series(
        method, kind, about, failure, status, hop.version, transport, hop.host, hop.port
    )
    stands = known and failure is None and call.name_header == about and call.hop is not NOWHERE
    usual = (hop, call.method, about) if stands else None
    durations.record(_DURATION, seconds, series, usual)


def _facts(call: Call, status: str | None, hop: Hop) -> dict[str, Any]:
    found: dict[str, Any] = {c.TRANSPORT: "pipe" if hop.host is None else "tcp"}
    kind, name = _about(call)
    if kind is not None and name is not None:
        found[c.TARGET_ATTRIBUTE[kind]] = name
        if kind == "tool":
            found[c.OPERATION] = c.EXECUTE_TOOL
    sent = call.sent or UNSENT
    if sent.request_id is not None:
        found[c.REQUEST_ID] = str(sent.request_id)
    if hop.version is not None:
        found[c.VERSION] = hop.version
    if sent.session_id is not None:
        found[c.SESSION] = sent.session_id
    if hop.host is not None:
        found[c.PROTOCOL] = "http"
        found[c.SERVER_ADDRESS] = hop.host
        found[c.SERVER_PORT] = hop.port
    if status is not None:
        found[c.STATUS_CODE] = status
    return found


class SessionDurations:
    """Measures the durations of upstream sessions.

    Args:
        tracing: takes what was measured.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`."""
        if isinstance(event, Ended):
            transport = "pipe" if event.process else "tcp"
            self._tracing.session_ended("client", event.seconds, event.version, transport)


class ObservedRetriever:
    """A retriever that records spans.

    Args:
        retriever: does the work.
        tracing: makes spans.
        catalog_version: of the catalog that is served.
    """

    def __init__(
        self, retriever: Retriever, tracing: Tracing, catalog_version: Callable[[], int]
    ) -> None:
        self._retriever = retriever
        self._tracing = tracing
        self._catalog_version = catalog_version

    async def search(
        self, query: Query, visible: VisibleSet | None, *, explain: bool = False
    ) -> Selection:
        """As `Retriever.search`."""
        search = self._retriever.search(query, visible, explain=explain)
        return await self._tracing.searched(search, query.texts, self._found)

    def _found(self, found: Selection) -> dict[str, Any]:
        facts: dict[str, Any] = {
            c.CANDIDATES: found.visible,
            c.RETURNED: len(found.matches),
            c.THRESHOLD: found.threshold,
            c.TOP_SCORE: float(found.top_score),
            c.CATALOG_VERSION: self._catalog_version(),
        }
        if found.degraded is not None:
            facts[c.DEGRADED] = found.degraded
        return facts
