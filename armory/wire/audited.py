"""The audit's record of one request.

Owns: what of a request, its answer and a refusal at the door goes into the record. Never imports a
transport.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw

from armory.audit.record import Entry, arguments_of, result_of
from armory.gateway.endpoint import Endpoint
from armory.gateway.metatools.definitions import CALL
from armory.gateway.observed import failure_of
from armory.gateway.requests import ClientRequest
from armory.observability.operation import Operation
from armory.protocol.codes import LIMITED
from armory.protocol.jsonrpc import code_of
from armory.protocol.link import Reply
from armory.protocol.meta import ERROR
from armory.protocol.rawjson import members_or_none, text_of
from armory.telemetry.conventions import CALLERS_FAULT, TOOL_ERROR

if TYPE_CHECKING:
    from armory.audit.writer import AuditLog

OnDenied = Callable[[str, str | None, str], None]
"""Is told of a request that is not let in: its path, its address, the code of the refusal."""
_NAME_CHARS = 200
_REFUSED = frozenset(("unknown_tool", "rate_limited", "quota_exceeded"))


class Asked(NamedTuple):
    """What a request asks: its method, the name or URI that it is about, its parameters."""

    method: str
    name: str | None
    params: Mapping[str, Raw]


def note(
    audit: AuditLog,
    request: ClientRequest,
    asked: Asked,
    operation: Operation,
    reply: Reply | None,
    seconds: float,
) -> None:
    """Have a request recorded.

    Args:
        audit: takes the record.
        request: whose it was, where.
        asked: what it asked.
        operation: which upstream it went to, how that went.
        reply: what it was answered; None: it was cancelled.
        seconds: how long it took.
    """
    principal = request.principal
    name, raw = asked.name, asked.params.get("arguments")
    if name == CALL and asked.method == "tools/call":
        inner = members_or_none(raw) or {}
        name, raw = text_of(inner, "name") or name, inner.get("arguments")
    outcome, code = _outcome(operation, reply)
    done = None if name is None or reply is None or reply.result is None else reply
    audit.note(
        Entry(
            at=time.time(),
            who=principal.owner,
            credential=principal.key,
            endpoint=path_of(request.endpoint),
            method=asked.method[:_NAME_CHARS],
            tool=None if name is None else name[:_NAME_CHARS],
            upstream=operation.upstream or None,
            outcome=outcome,
            code=code,
            ms=seconds * 1_000,
            trace_id=operation.trace_id,
            arguments=arguments_of(None if raw is None else bytes(raw), audit.arguments),
            result=result_of(() if done is None else done.parts, audit.results),
        )
    )


def path_of(endpoint: Endpoint) -> str:
    """Where a request asked, as its path."""
    if endpoint.kind == "all":
        return "/mcp"
    return f"/mcp/set/{endpoint.name}" if endpoint.kind == "set" else f"/mcp/{endpoint.name}"


def note_denied(audit: AuditLog, path: str, remote: str | None, code: str) -> None:
    """Have recorded that somebody was not let in.

    Args:
        audit: takes the record.
        path: where it asked.
        remote: its address.
        code: of the refusal.
    """
    who = remote or "unknown"
    audit.note(Entry(time.time(), who, "none", path[:_NAME_CHARS], "", "denied", code=code))


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
    """The code in a result that the gateway itself made."""
    meta = members_or_none((members_or_none(reply.result) or {}).get("_meta")) or {}
    return text_of(members_or_none(meta.get(ERROR)) or {}, "code")
