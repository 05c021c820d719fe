"""Tracing and auditing of REST requests.

Owns: which requests are traced and recorded, and what of them. Never knows what a route does.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web
from msgspec import Raw

from armory.audit.record import Entry
from armory.domain.principal import Principal
from armory.observability.operation import CURRENT, Operation
from armory.protocol.rawjson import members_or_none
from armory.telemetry import conventions as c
from armory.telemetry.conventions import TOOL_ERROR
from armory.web.rest.routes import Route

if TYPE_CHECKING:
    from armory.audit.writer import AuditLog
    from armory.telemetry.tracing import Tracing

_CHARS = 200
_CALL = "/tools/{name}/call"
_DENIED = 401


@dataclass(slots=True)
class RequestState:
    """The state of one request for tracing and audit.

    Attributes:
        operation: which upstream it went to, how that went.
        started: `time.perf_counter()` at its beginning.
        principal: who asks; None until that is known.
        remote: the address that it comes from, through trusted proxies.
        code: of the problem that it was answered with; None: none.
        status: of the answer; 0: it was cancelled.
        body: its body; None: it was not read, or there is none.
        answered: body of the answer to a call that went well; None: anything else.
    """

    operation: Operation = field(default_factory=Operation)
    started: float = field(default_factory=time.perf_counter)
    principal: Principal | None = None
    remote: str | None = None
    code: str | None = None
    status: int = 0
    body: bytes | None = None
    answered: bytes | None = None


def of_a_call(route: Route, response: web.StreamResponse) -> bytes | None:
    """The body of the answer to a successful tool call; None: anything else."""
    if response.status >= 400 or not route.path.endswith(_CALL):
        return None
    body = response.body if isinstance(response, web.Response) else None
    return body if isinstance(body, bytes) else None


def recorded(route: Route, asked: RequestState) -> bool:
    """Whether a request is audited. Reads of the gateway's own state, as the console makes all the
    time, are not, unless they were refused.
    """
    if route.access == "public":
        return False
    return _acts(route) or asked.status >= 400


def _acts(route: Route) -> bool:
    """Whether a route calls a tool, searches, or changes something."""
    return route.method != "GET" or route.path.endswith("/retrieve_tools")


@contextmanager
def traced(
    tracing: Tracing | None, route: Route, request: web.Request, asked: RequestState
) -> Generator[None]:
    """Serve a request within a span; reads of the gateway's own state have none.

    Args:
        tracing: makes the spans; None: none are wanted.
        route: what is asked.
        request: as it came.
        asked: says at the end how it went.
    """
    if tracing is None or route.access == "public" or not _acts(route):
        yield
        return
    operation = asked.operation
    tracing.rest(operation, route.method, route.path, request.headers)
    token = CURRENT.set(operation)
    try:
        yield
    finally:
        CURRENT.reset(token)
        operation.over = True
        if operation.span is not None:
            tracing.finish(operation.span, _facts(route, request, asked), _failure(asked))


def _facts(route: Route, request: web.Request, asked: RequestState) -> dict[str, Any]:
    found: dict[str, Any] = {c.URL_PATH: request.path[:_CHARS], c.URL_SCHEME: request.scheme}
    if asked.status:
        found[c.HTTP_STATUS] = asked.status
    if asked.remote is not None:
        found[c.CLIENT_ADDRESS] = asked.remote
    if route.path.endswith(_CALL):
        found[c.TOOL] = request.match_info["name"]
        found[c.OPERATION] = c.EXECUTE_TOOL
    return found


def _failure(asked: RequestState) -> str | None:
    """`error.type`; errors of the caller do not count as such."""
    if not asked.status:
        return "cancelled"
    if asked.status >= 500:
        return asked.code or str(asked.status)
    return asked.operation.failure if asked.status < 400 else None


async def note(audit: AuditLog, route: Route, request: web.Request, asked: RequestState) -> None:
    """Write the audit record of a request.

    Args:
        audit: takes the record.
        route: what was asked.
        request: its arguments are read from it, where the audit keeps any.
        asked: who asked, and how it ended.
    """
    principal = asked.principal
    who = asked.remote or "unknown" if principal is None else principal.owner
    failure = asked.operation.failure
    arguments: Raw | None = None
    if audit.arguments != "off" and asked.body is not None and asked.status:
        arguments = (members_or_none(Raw(asked.body)) or {}).get("arguments")
    entry = Entry(
        at=time.time(),
        who=who,
        credential="none" if principal is None else principal.key,
        endpoint=request.path[:_CHARS],
        method=f"{route.method} {route.path}",
        tool=request.match_info.get("name") or request.match_info.get("tool"),
        upstream=asked.operation.upstream or None,
        outcome=_outcome(asked),
        code=asked.code or (None if failure == TOOL_ERROR else failure),
        ms=(time.perf_counter() - asked.started) * 1_000,
        trace_id=asked.operation.trace_id,
    )
    answered = () if asked.answered is None or audit.results == "off" else (asked.answered,)
    noted = audit.note_with(entry, None if arguments is None else bytes(arguments), answered)
    if noted is not None:
        await noted


def _outcome(asked: RequestState) -> str:
    if not asked.status:
        return "cancelled"
    if asked.status == _DENIED:
        return "denied"
    if asked.status >= 500 or (asked.status < 400 and asked.operation.failure):
        return "tool_error" if asked.operation.failure == TOOL_ERROR else "error"
    return "refused" if asked.status >= 400 else "ok"
