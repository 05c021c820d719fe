"""The dispatcher with tracing, metrics and audit.

Owns: `ObservedDispatcher` and its `Observers`. It replaces the plain dispatcher only if something
observes requests; otherwise observation costs nothing. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from armory.gateway.gateway import Gateway
from armory.gateway.metatools.definitions import META_TOOLS
from armory.gateway.observed import failure_of
from armory.gateway.requests import ClientRequest
from armory.observability.operation import CURRENT, Operation
from armory.protocol.jsonrpc import code_of
from armory.protocol.link import Reply
from armory.protocol.methods import LISTEN
from armory.protocol.rawjson import EMPTY_OBJECT, text_or_none
from armory.telemetry import conventions as c
from armory.telemetry.measuring import AT_ONCE
from armory.telemetry.propagation import KEPT, TRACEPARENT
from armory.wire.audited import OnDenied, note, note_denied, note_refused
from armory.wire.caller import Caller
from armory.wire.dispatch import Dispatcher, Verify, failed
from armory.wire.interaction.interactions import Interactions
from armory.wire.interaction.state import OwnedByReplica
from armory.wire.listening import ClientListening
from armory.wire.methods import METHODS
from armory.wire.sessions.registry import OnEnded

if TYPE_CHECKING:
    from armory.audit.writer import AuditLog
    from armory.telemetry.measuring import Durations
    from armory.telemetry.tracing import Tracing

_DURATION = c.DURATION["server"]


@dataclass(frozen=True, slots=True)
class Observers:
    """What observes the requests of clients.

    Attributes:
        tracing: makes spans; None: tracing is off.
        audit: takes a record of every request; None: the audit is off.
    """

    tracing: Tracing | None = None
    audit: AuditLog | None = None

    def __bool__(self) -> bool:
        return self.tracing is not None or self.audit is not None

    def denied(self) -> OnDenied | None:
        """The function to call for rejected requests; None: there is none."""
        return None if self.audit is None else partial(note_denied, self.audit)

    def session_ended(self, transport: str) -> OnEnded | None:
        """The function to call for client sessions that ended; None: there is none."""
        tracing = self.tracing
        if tracing is None:
            return None
        return lambda seconds, version: tracing.session_ended("server", seconds, version, transport)


def dispatcher_of(
    gateway: Gateway, interactions: Interactions, observers: Observers | None
) -> Dispatcher:
    """The dispatcher of one edge, observed if anything observes."""
    if not observers:
        return Dispatcher(gateway, interactions)
    return ObservedDispatcher(gateway, interactions, observers)


class ObservedDispatcher(Dispatcher):
    """A dispatcher that records spans, durations and audit records.

    Args:
        gateway: the request path.
        interactions: multi-round-trip requests and parked calls.
        observers: what observes the requests.
    """

    def __init__(self, gateway: Gateway, interactions: Interactions, observers: Observers) -> None:
        super().__init__(gateway, interactions)
        self._tracing = tracing = observers.tracing
        self._durations = None if tracing is None else tracing.durations
        self._usual = None if self._durations is None else self._durations.usual
        self._audit = observers.audit

    async def answer(  # noqa: C901 one function: what is run once a call is found in no cache
        self,
        request: ClientRequest,
        method: str,
        params: dict[str, Raw],
        verify: Verify | None = None,
    ) -> Reply:
        """As `Dispatcher.answer`."""
        operation, tracing = Operation(), self._tracing
        if tracing is not None:
            waiting = tracing.waiting
            if TRACEPARENT in request.meta or TRACEPARENT in request.headers:
                _begun(tracing, operation, request, method, params)
            elif not waiting or waiting[-1].endswith(KEPT):
                if waiting is not None:
                    _begun(tracing, operation, request, method, params)
            else:  # most requests begin a trace that is not kept
                operation.traceparent, operation.new = waiting.pop(), True
        token = CURRENT.set(operation)
        started = perf_counter()
        reply: Reply | None = None
        elsewhere = False
        try:
            reply = await self.handled(request, method, params, verify)
            return reply
        except OwnedByReplica:
            elsewhere = True
            raise
        except Exception as failure:  # noqa: BLE001 as there
            reply = failed(failure, request, method)
            return reply
        finally:
            CURRENT.reset(token)
            operation.over = True
            seconds = perf_counter() - started
            usual = self._usual
            if not elsewhere and (usual is not None or operation.span is not None):
                observed = None
                if usual and operation.failure is None:
                    name = params.get("name")
                    of = None if name is None else bytes(name)
                    observed = usual.get((method, of, request.version, not request.headers))
                if observed is not None and (
                    reply is not None
                    and reply.error is None
                    and (operation.upstream or failure_of(reply) is None)
                ):
                    observed.append(seconds)
                    if len(observed) >= AT_ONCE:
                        observed.fold()
                elif self._durations is not None:
                    _measured(self._durations, request, (method, params), operation, reply, seconds)
                if operation.span is not None and tracing is not None:
                    _ended(tracing, request, (method, params), operation, reply)
            if self._audit is not None and method != "ping" and not elsewhere:
                asked = method, params
                view = self._gateway.view
                noted = note(self._audit, view, request, asked, operation, reply, seconds)
                if noted is not None:
                    await noted

    def refused(self, caller: Caller, code: int | str, method: str = "") -> None:
        """As `Dispatcher.refused`."""
        if self._audit is not None:
            note_refused(self._audit, caller, code, method)

    async def listen(
        self, request: ClientRequest, id: bytes, params: Mapping[str, Raw]
    ) -> ClientListening | Reply:
        """As `Dispatcher.listen`."""
        started = perf_counter()
        reply: Reply | None = None
        try:
            found = await super().listen(request, id, params)
            reply = found if isinstance(found, Reply) else Reply(EMPTY_OBJECT)
            return found
        finally:
            if self._audit is not None:
                asked, seconds = (LISTEN, params), perf_counter() - started
                view = self._gateway.view
                noted = note(self._audit, view, request, asked, Operation(), reply, seconds)
                if noted is not None:
                    await noted


def _about(method: str, params: dict[str, Raw]) -> tuple[c.Kind | None, Raw | None]:
    """(kind, name as JSON) of the target of a request."""
    target = c.TARGETS.get(method)
    if target is None or target[0] not in params:
        return None, None
    return target[1], params[target[0]]


def _begun(
    tracing: Tracing,
    operation: Operation,
    request: ClientRequest,
    method: str,
    params: dict[str, Raw],
) -> None:
    """Begin the span of a request that belongs to a trace, or whose trace is sampled."""
    kind, name = _about(method, params)
    title = None if kind == "resource" else name
    tracing.server(operation, method, title, request.meta, request.headers)


def _measured(
    durations: Durations,
    request: ClientRequest,
    asked: tuple[str, dict[str, Raw]],
    operation: Operation,
    reply: Reply | None,
    seconds: float,
) -> None:
    """Record a request's duration; the series of a common kind is cached for the next one.

    Args:
        durations: takes the duration.
        request: the caller and its endpoint.
        asked: (method, parameters).
        operation: the upstream that it went to, and the outcome there.
        reply: the answer; None: it was cancelled.
        seconds: how long it took.
    """
    method, params = asked
    kind, raw = _about(method, params)
    failure, status = _outcome(operation, reply)
    name = text_or_none(raw)
    known = method in METHODS
    named = (operation.upstream and kind != "resource") or name in META_TOOLS
    series = c.Series(
        method if known else c.OTHER,
        kind,
        name if named else None,
        failure,
        status,
        request.version,
        "tcp" if request.headers else "pipe",
    )
    stands = known and failure is status is None and _as_it_is(params.get("name"), series.name)
    of = None if series.name is None else f'"{series.name}"'.encode()
    usual = (method, of, request.version, not request.headers) if stands else None
    durations.record(_DURATION, seconds, series, usual)


def _ended(
    tracing: Tracing,
    request: ClientRequest,
    asked: tuple[str, dict[str, Raw]],
    operation: Operation,
    reply: Reply | None,
) -> None:
    """End the span of an answered request; arguments as of `_measured`."""
    kind, raw = _about(*asked)
    failure, status = _outcome(operation, reply)
    facts = _facts(request, kind, text_or_none(raw), "tcp" if request.headers else "pipe")
    if status is not None:
        facts[c.STATUS_CODE] = status
    tracing.finish(operation.span, facts, failure)


def _as_it_is(raw: Raw | None, name: str | None) -> bool:
    """Whether a name is written without escapes: there are too many other spellings to cache."""
    if raw is None or name is None:
        return raw is name
    return bytes(raw) == f'"{name}"'.encode()


def _outcome(operation: Operation, reply: Reply | None) -> tuple[str | None, str | None]:
    """(`error.type` or None, code of the JSON-RPC error or None) of an answer."""
    if reply is None:
        return "cancelled", None
    if reply.error is not None:
        code = code_of(reply.error)
        return (None if code in c.CALLERS_FAULT else str(code)), str(code)
    if operation.upstream:
        return (None if operation.failure is None else c.TOOL_ERROR), None
    return failure_of(reply), None


def _facts(
    request: ClientRequest, kind: c.Kind | None, name: str | None, transport: str
) -> dict[str, Any]:
    found: dict[str, Any] = {c.VERSION: request.version, c.TRANSPORT: transport}
    if kind is not None and name is not None:
        found[c.TARGET_ATTRIBUTE[kind]] = name
        if kind == "tool":
            found[c.OPERATION] = c.EXECUTE_TOOL
    if request.id:
        found[c.REQUEST_ID] = request.id.decode("utf-8", "replace").strip('"')
    if request.session_id is not None:
        found[c.SESSION] = request.session_id
    if transport == "tcp":
        found[c.PROTOCOL] = "http"
    if request.remote is not None:
        found[c.CLIENT_ADDRESS] = request.remote
    return found
