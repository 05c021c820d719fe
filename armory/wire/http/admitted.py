"""One HTTP request that was let in, and the ways to answer it at once.

Owns: `AdmittedRequest`, JSON answers. aiohttp's server side is used here and in
its siblings, nowhere below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aiohttp import web

from armory.protocol import jsonrpc
from armory.wire.caller import Caller
from armory.wire.http.answers import JsonAnswer, Part
from armory.wire.streams import SSE_HEADERS


@dataclass(slots=True)
class AdmittedRequest:
    """One admitted request.

    Attributes:
        request: aiohttp's.
        caller: who asks, and where.
        extra: headers that every answer carries (CORS).
        takes_json, takes_sse: what its Accept header lists.
        body: the body, once it was read.
    """

    request: web.Request
    caller: Caller
    extra: Mapping[str, str]
    takes_json: bool = True
    takes_sse: bool = True
    body: bytes = b""


@lru_cache(maxsize=64)
def accepts(header: str | None) -> tuple[bool, bool]:
    """(JSON, server-sent events) as an Accept header lists them; without one both."""
    if header is None or "*/*" in header:
        return True, True
    lowered = header.lower()
    takes_json = "application/json" in lowered or "application/*" in lowered
    return takes_json, "text/event-stream" in lowered or "text/*" in lowered


def json_answer(
    admitted: AdmittedRequest | None,
    body: bytes | Sequence[Part],
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> JsonAnswer:
    """A JSON body, whole or in parts."""
    extra = admitted.extra if admitted is not None else None
    every = {**extra, **(headers or {})} if extra else headers
    return JsonAnswer((body,) if isinstance(body, bytes) else body, status, every)


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
    """An event stream, not yet started."""
    return web.StreamResponse(headers={**SSE_HEADERS, **admitted.extra, **(headers or {})})


def url_of(request: web.Request) -> dict[str, list[str]]:
    """The query parameters of a request, by name."""
    if not request.rel_url.raw_query_string:
        return {}
    query = request.rel_url.query
    return {name: query.getall(name) for name in query}
