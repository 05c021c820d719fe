"""One HTTP request with what admission found out about it, and the ways to answer it.

Owns: `AdmittedRequest`, JSON answers, and the answer that becomes a stream only when it has to.
aiohttp's server side is used here and in its siblings under `wire/`, nowhere below.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from aiohttp import web
from msgspec import Raw

from armory.domain.principal import Principal
from armory.gateway.context import Endpoint
from armory.protocol import codes, jsonrpc
from armory.protocol.link import Answer, Params, Reply
from armory.wire.eras import ladder as eras
from armory.wire.errors import status_of
from armory.wire.http.answers import JsonAnswer, Part
from armory.wire.sessions.calls import encoded
from armory.wire.streams import PING, SSE_HEADERS, KeepaliveTimer, frame


@dataclass(slots=True)
class AdmittedRequest:
    """One admitted request.

    Attributes:
        request: aiohttp's.
        principal: who it is.
        endpoint: where it asks.
        extra: headers that every answer carries (CORS).
        takes_json, takes_sse: what its Accept header lists.
        body: the body, once it was read.
    """

    request: web.Request
    principal: Principal
    endpoint: Endpoint
    extra: Mapping[str, str]
    takes_json: bool = True
    takes_sse: bool = True
    body: bytes = b""


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


class LazyAnswer:
    """The answer to a modern request: JSON, unless something must be said before the result.

    A client that accepts event streams gets one as soon as there is a notification, or after 15
    seconds of silence, so that proxies keep the connection.
    """

    def __init__(self, admitted: AdmittedRequest, patience: KeepaliveTimer) -> None:
        self._visit = admitted
        self._patience = patience
        self._response: web.StreamResponse | None = None
        self._opening: asyncio.Task[web.StreamResponse] | None = None
        self._pinging: asyncio.Task[None] | None = None
        if admitted.takes_sse:
            patience.add(self)

    def remind(self) -> None:
        """Keep the connection of a client that waits."""
        self._pinging = asyncio.ensure_future(self._ping())

    async def _ping(self) -> None:
        with contextlib.suppress(ConnectionError):
            response = await self._open()
            await response.write(PING)

    async def _open(self) -> web.StreamResponse:
        if self._response is not None:
            return self._response
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._start())
        return await asyncio.shield(self._opening)

    async def _start(self) -> web.StreamResponse:
        response = new_stream(self._visit)
        await response.prepare(self._visit.request)
        self._response = response
        return response

    async def event(self, data: bytes) -> None:
        """Say something before the result; lost on clients that take JSON only."""
        if not self._visit.takes_sse:
            return
        response = await self._open()
        await response.write(frame(data))

    async def finish(self, id: bytes, reply: Reply) -> web.StreamResponse:
        """The result."""
        self.stop()
        if self._opening is not None or not self._visit.takes_json:
            response = await self._open()
            await response.write(frame(encoded(id, reply)))
            await response.write_eof()
            return response
        if reply.error is not None:
            return json_answer(self._visit, encoded(id, reply), status_of(reply.error))
        return json_answer(self._visit, jsonrpc.response_parts(id, reply.parts))

    def stop(self) -> None:
        """No more keep-alives."""
        self._patience.drop(self)
        if self._pinging is not None:
            self._pinging.cancel()
            self._pinging = None


class Nobody:
    """A client that cannot be reached while its request is served."""

    capabilities: Mapping[str, Any] = MappingProxyType({})
    log_level: str | None = None
    progress_token: Raw | None = None

    async def notify(self, method: str, params: Params) -> None:
        """Lost."""

    async def ask(self, method: str, params: Params) -> Answer:
        """Refused."""
        del params
        return Answer(error=jsonrpc.error(codes.METHOD_NOT_FOUND, f"{method}: nobody is there"))


NOBODY = Nobody()


class RequestChannel:
    """A modern client behind one of its requests, as an upstream may reach it."""

    __slots__ = ("_answer", "capabilities", "log_level", "progress_token")

    def __init__(
        self,
        answer: LazyAnswer,
        capabilities: Mapping[str, Any],
        log_level: str | None,
        progress_token: Raw | None,
    ) -> None:
        self._answer = answer
        self.capabilities = capabilities
        self.log_level = log_level
        self.progress_token = progress_token

    async def notify(self, method: str, params: Params) -> None:
        """Deliver on the response, which becomes a stream."""
        if method in eras.ON_REQUEST_STREAMS:
            await self._answer.event(jsonrpc.notification(method, params or None))

    async def ask(self, method: str, params: Params) -> Answer:
        """A modern client is never asked directly: see `wire.interaction`."""
        del params
        message = f"{method} cannot be put to this client"
        return Answer(error=jsonrpc.error(codes.METHOD_NOT_FOUND, message))


async def read_body(request: web.Request, limit: int) -> bytes | None:
    """The body; None when it is larger than `limit` bytes."""
    length = request.content_length
    if length is not None and length > limit:
        return None
    content = request.content
    first = await content.readany()
    if content.at_eof():
        return first if len(first) <= limit else None
    parts = [first]
    size = len(first)
    while size <= limit:
        part = await content.readany()
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    return None


def url_of(request: web.Request) -> dict[str, list[str]]:
    """The query parameters of a request, by name."""
    if not request.rel_url.raw_query_string:
        return {}
    query = request.rel_url.query
    return {name: query.getall(name) for name in query}
