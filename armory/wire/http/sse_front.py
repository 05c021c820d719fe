"""HTTP+SSE (2024-11-05) in front: a stream from `/sse`, messages to `/messages`.

Owns: these two routes. Sessions live as long as their stream.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from aiohttp import web

from armory.gateway.context import ALL
from armory.protocol import codes
from armory.security.expiry import while_valid
from armory.wire.duplex import Duplex
from armory.wire.http.admitted import AdmittedRequest, new_stream, read_body, refusal, url_of
from armory.wire.streams import EventStream, pump

if TYPE_CHECKING:
    from armory.wire.http.edge import HttpEdge


class SseFront:
    """The two routes.

    Args:
        edge: whose admission, sessions and caps apply.
    """

    def __init__(self, edge: HttpEdge) -> None:
        self._edge = edge
        self._open: dict[str, tuple[Duplex, AdmittedRequest]] = {}

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """`GET /sse`: says where to post, then every message of the server."""
        return await self._edge.admitted("all", request, self._stream)

    async def message(self, request: web.Request) -> web.StreamResponse:
        """`POST /messages?session_id=...`: one message of the client."""
        return await self._edge.admitted("all", request, self._message)

    async def _stream(self, admitted: AdmittedRequest) -> web.StreamResponse:
        edge, request = self._edge, admitted.request
        if request.method != "GET":
            return _only(admitted, "GET")
        if not edge.take_stream():
            message = "too many streams are open (server.limits.streams); try again later"
            return refusal(503, codes.LIMITED, message, headers=admitted.extra)
        out = EventStream("sse", keep_bytes=0)
        duplex = Duplex(
            edge.gateway,
            edge.dispatcher,
            edge.sessions,
            admitted.principal,
            ALL,
            out,
            headers=request.headers,
            url=url_of(request),
            json_depth=edge.settings.json_depth,
        )
        key = secrets.token_hex(16)
        self._open[key] = (duplex, admitted)
        edge.pipes.add(out)
        try:
            response = new_stream(admitted)
            await response.prepare(request)
            path = f"{edge.settings.base_path}/messages?session_id={key}"
            await response.write(b"event: endpoint\ndata: %b\n\n" % path.encode())
            await while_valid(admitted.principal, pump(response.write, out, ids=False))
            await response.write_eof()
            return response
        finally:
            edge.give_stream()
            edge.pipes.discard(out)
            del self._open[key]
            await duplex.close()

    async def _message(self, admitted: AdmittedRequest) -> web.StreamResponse:
        edge, request = self._edge, admitted.request
        if request.method != "POST":
            return _only(admitted, "POST")
        found = self._open.get(request.query.get("session_id", ""))
        if found is None or found[1].principal.key != admitted.principal.key:
            message = "no such session; open /sse first"
            return refusal(404, codes.INVALID_REQUEST, message, headers=admitted.extra)
        body = await read_body(request, edge.settings.body_bytes)
        if body is None:
            message = f"the body is larger than {edge.settings.body_bytes:,} bytes"
            return refusal(413, codes.INVALID_REQUEST, message, headers=admitted.extra)
        await found[0].take(body)
        return web.Response(status=202, text="Accepted", headers=dict(admitted.extra))


def _only(admitted: AdmittedRequest, method: str) -> web.StreamResponse:
    headers = {**admitted.extra, "Allow": method}
    message = f"{admitted.request.method} is not served here; use {method}"
    return refusal(405, codes.INVALID_REQUEST, message, headers=headers)
