"""Audit records of MCP requests.

Owns: which parts of a request and its answer, or of a refusal before it is served, go into the
record. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import TYPE_CHECKING

from msgspec import Raw

from armory.audit.record import Entry
from armory.domain.naming import expose_names, expose_uri
from armory.domain.principal import Principal
from armory.gateway.endpoint import Endpoint
from armory.gateway.metatools.definitions import CALL
from armory.gateway.observed import failure_of
from armory.gateway.requests import ClientRequest
from armory.gateway.views.view import View
from armory.observability.operation import Operation
from armory.protocol.codes import LIMITED
from armory.protocol.jsonrpc import code_of
from armory.protocol.link import Reply
from armory.protocol.meta import ERROR
from armory.protocol.rawjson import members_or_none, text_of, text_or_none
from armory.telemetry.conventions import CALLERS_FAULT, TARGETS, TOOL_ERROR, Kind
from armory.wire.caller import Caller

if TYPE_CHECKING:
    from armory.audit.writer import AuditLog

OnDenied = Callable[[str, str | None, str, Principal | None], None]
"""Called for each request that is refused: (path, client address, code of the refusal, principal if
the credential was valid).
"""
_NAME_CHARS = 200
_REFUSED = frozenset(("unknown_tool", "rate_limited", "quota_exceeded"))


def note(
    audit: AuditLog,
    view: View,
    request: ClientRequest,
    asked: tuple[str, Mapping[str, Raw]],
    operation: Operation,
    reply: Reply | None,
    seconds: float,
) -> Awaitable[None] | None:
    """Write the audit record of a request; returns what has to be awaited.

    Args:
        audit: takes the record.
        view: the served view, which has the exposed names for an upstream's own endpoint.
        request: the caller and its endpoint.
        asked: (method, parameters).
        operation: the upstream that it went to, and the outcome there.
        reply: the answer; None: it was cancelled.
        seconds: how long it took.
    """
    method, params = asked
    target, raw = TARGETS.get(method), params.get("arguments")
    name = None if target is None else text_or_none(params.get(target[0]))
    if request.endpoint.transparent:
        if target is not None and name is not None:
            name = _exposed(view, request.endpoint.name, target[1], name)
    elif name == CALL and method == "tools/call":
        inner = members_or_none(raw) or {}
        name, raw = text_of(inner, "name") or name, inner.get("arguments")
    outcome, code = _outcome(operation, reply)
    arguments = None if raw is None or audit.arguments == "off" else bytes(raw)
    answered = None if audit.results == "off" or name is None else reply
    principal = request.principal
    entry = Entry(
        time(),
        principal.owner,
        principal.key,
        path_of(request.endpoint),
        method[:_NAME_CHARS],
        outcome,
        None if name is None else name[:_NAME_CHARS],
        operation.upstream or None,
        code,
        seconds * 1_000,
        operation.trace_id,
    )
    result = () if answered is None or answered.result is None else answered.parts
    return audit.note_with(entry, arguments, result)


def _exposed(view: View, server: str, kind: Kind, name: str) -> str:
    """The exposed name of what a server calls `name`: records have one name for a tool, at
    whichever endpoint it was called.
    """
    if kind == "resource":
        return expose_uri(server, name)
    record = view.tool_at(server, name) if kind == "tool" else view.prompt_at(server, name)
    return expose_names(server, (name,))[name] if record is None else record.name


def path_of(endpoint: Endpoint) -> str:
    """The path of an endpoint."""
    if endpoint.kind == "all":
        return "/mcp"
    return f"/mcp/set/{endpoint.name}" if endpoint.kind == "set" else f"/mcp/{endpoint.name}"


def note_denied(
    audit: AuditLog, path: str, remote: str | None, code: str, principal: Principal | None
) -> None:
    """Write the audit record of a rejected request.

    Args:
        audit: takes the record.
        path: where it asked.
        remote: its address.
        code: of the refusal.
        principal: who it is; None: its credential was not good.
    """
    who, by = (
        (remote or "unknown", "none") if principal is None else (principal.owner, principal.key)
    )
    audit.note(Entry(time(), who, by, path[:_NAME_CHARS], "", "denied", code=code))


def note_refused(audit: AuditLog, caller: Caller, code: int | str, method: str) -> None:
    """Write the audit record of a request that its transport refused; arguments as of
    `Dispatcher.refused`.
    """
    who, path, asked = caller.principal, path_of(caller.endpoint), method[:_NAME_CHARS]
    audit.note(Entry(time(), who.owner, who.key, path, asked, "refused", code=str(code)))


def _outcome(operation: Operation, reply: Reply | None) -> tuple[str, str | None]:
    """(outcome, code)."""
    if reply is None:
        return "cancelled", None
    if reply.error is not None:
        code = code_of(reply.error)
        refused = code in CALLERS_FAULT or code == LIMITED
        return ("refused" if refused else "error"), str(code)
    failure = operation.failure if operation.upstream else failure_of(reply)
    if failure is None:
        return "ok", None
    if operation.upstream:
        return (TOOL_ERROR, None) if failure == TOOL_ERROR else ("error", failure)
    code = _own_code(reply)
    return ("refused" if code in _REFUSED else "error"), code


def _own_code(reply: Reply) -> str | None:
    """The error code in a result that the gateway itself made."""
    meta = members_or_none((members_or_none(reply.result) or {}).get("_meta")) or {}
    return text_of(members_or_none(meta.get(ERROR)) or {}, "code")
