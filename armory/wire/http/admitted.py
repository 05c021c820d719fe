"""An admitted HTTP request, and helpers to answer it.

Owns: `AdmittedRequest`, what its head says, and the answers to it. aiohttp's server side is used
here and in its siblings, nowhere below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import GatewayEnds
from armory.protocol import codes, jsonrpc
from armory.protocol.jsonrpc import Part, Parted
from armory.wire.caller import Caller
from armory.wire.http.answers import JsonAnswer
from armory.wire.messages import Data
from armory.wire.sse import SSE_HEADERS, frame_pieces

OVERDUE = GatewayEnds().message


@dataclass(slots=True)
class AdmittedRequest:
    """One admitted request.

    Attributes:
        request: aiohttp's.
        connection: on which it came.
        caller: who asks, and where.
        extra: headers that every answer carries (CORS).
        takes_json, takes_sse: what its Accept header lists.
        endings: how many credentials had ended when it was let in (`Authenticator.endings`).
        body: the body, once it was read.
    """

    request: web.Request
    connection: Any
    caller: Caller
    extra: Mapping[str, str]
    takes_json: bool = True
    takes_sse: bool = True
    endings: int = 0
    body: bytes = b""


def answered_overdue(admitted: AdmittedRequest) -> bool:
    """Whether a request that is being cancelled still gets an answer (`OVERDUE`), because the
    gateway shuts down and its client is connected. If so, its task is uncancelled.
    """
    if not getattr(admitted.connection, "overdue", False):
        return False
    admitted.request.task.uncancel()
    return True


@lru_cache(maxsize=64)
def accepts(header: str | None) -> tuple[bool, bool]:
    """(JSON, server-sent events): what an Accept header lists; both without one."""
    if header is None or "*/*" in header:
        return True, True
    lowered = header.lower()
    takes_json = "application/json" in lowered or "application/*" in lowered
    return takes_json, "text/event-stream" in lowered or "text/*" in lowered


def json_answer(
    admitted: AdmittedRequest | None,
    body: Data | Sequence[Part],
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> JsonAnswer:
    """A JSON answer, whole or in parts."""
    extra = admitted.extra if admitted is not None else None
    every = {**extra, **(headers or {})} if extra else headers
    if isinstance(body, bytes):
        parts: Sequence[Part] = (body,)
    else:
        parts = body.parts if isinstance(body, Parted) else body
    return JsonAnswer(parts, status, every)


def only_answer(
    admitted: AdmittedRequest, message: Data, headers: Mapping[str, str]
) -> web.StreamResponse:
    """One message: as JSON, or as the only event for a client that accepts event streams alone."""
    if admitted.takes_json:
        return json_answer(admitted, message, headers=headers)
    every = {**SSE_HEADERS, **admitted.extra, **headers}
    return web.Response(body=b"".join(frame_pieces(message)), headers=every)


def refusal(
    status: int,
    code: int,
    message: str,
    *,
    id: bytes = jsonrpc.NULL,
    data: Any = None,
    headers: Mapping[str, str] | None = None,
) -> JsonAnswer:
    """A JSON-RPC error with an HTTP status."""
    body = jsonrpc.error_response(id, jsonrpc.error(code, message, data))
    return json_answer(None, body, status, headers)


def new_stream(
    admitted: AdmittedRequest, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """An event stream, not started yet."""
    return web.StreamResponse(headers={**SSE_HEADERS, **admitted.extra, **(headers or {})})


def query_parameters(request: web.Request) -> dict[str, list[str]]:
    """The query parameters of a request, by name; invalid UTF-8 as lone surrogates, so that readers
    of a parameter can refuse it.
    """
    if "?" not in request.raw_path:
        return {}
    found: dict[str, list[str]] = {}
    written = request.rel_url.raw_query_string
    for name, value in parse_qsl(written, keep_blank_values=True, errors="surrogateescape"):
        found.setdefault(name, []).append(value)
    return found


def share_of(caller: Caller) -> str:
    """The key under which a request's share of the event loop and of the connections is counted."""
    return person_at(caller.principal, caller.remote)


def person_at(principal: Principal, remote: str | None) -> str:
    """The person behind a principal; for the anonymous one, the address."""
    return f"{principal.key} {remote}" if principal is ANONYMOUS else principal.person


def session_gone(admitted: AdmittedRequest) -> web.StreamResponse:
    """The answer where there is no such session (any more)."""
    message = "no such session; it may have expired: send initialize again"
    return refusal(404, codes.SESSION_NOT_FOUND, message, headers=admitted.extra)
