"""HTTP+SSE (2024-11-05) for clients: a stream from `/sse`, messages to `/messages`.

Owns: these two routes. Sessions live as long as their stream.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from functools import partial

from aiohttp import web
from multidict import CIMultiDict

from armory.domain.principal import Principal
from armory.protocol import codes
from armory.protocol.errors import Malformed
from armory.security.expiry import while_valid
from armory.tasks import Tasks, shielded, start, stop
from armory.wire.duplex.connection import Duplex
from armory.wire.http.admitted import (
    AdmittedRequest,
    answered_overdue,
    new_stream,
    refusal,
    share_of,
)
from armory.wire.http.answers import tell_held
from armory.wire.http.context import EdgeContext
from armory.wire.http.replicas import was_passed
from armory.wire.sse import pump
from armory.wire.streams import EventStream

_OF_ONE_MESSAGE = ("x-armory-", "x-prefer-format", "traceparent", "tracestate")
"""How headers begin that say something of one request, whatever its stream was opened with."""


class SseFront:
    """Serves `/sse` and `/messages`.

    Args:
        edge: what the handlers of the edge share.
        base_path: prefix of both routes.
    """

    def __init__(self, edge: EdgeContext, base_path: str) -> None:
        self._edge = edge
        self._messages = f"{base_path}/messages"
        self._open: dict[str, tuple[Duplex, Principal]] = {}
        self._ending = Tasks()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """`GET /sse`: says where to post, then every message of the server."""
        return await self._edge.admission.serve("all", request, self._stream)

    async def message(self, request: web.Request) -> web.StreamResponse:
        """`POST /messages?session_id=...`: one message of the client."""
        return await self._edge.admission.serve("all", request, self._message)

    async def end_those(self, whose: Callable[[Principal], bool]) -> None:
        """Cancel the requests in flight of some principals. Their streams, which `OpenStreams`
        ends, notice only as the client reads on.
        """
        ending = [duplex.close() for duplex, owner in self._open.values() if whose(owner)]
        await asyncio.gather(*ending)

    def end_streams(self) -> None:
        """End each connection once its calls in flight have ended, since their answers
        come on it.
        """
        for duplex, _ in self._open.values():
            self._ending.spawn(duplex.finish(), "end of an HTTP+SSE connection")

    async def close(self) -> None:
        """End them now."""
        await self._ending.stop()
        await asyncio.gather(*(duplex.close() for duplex, _ in self._open.values()))

    async def _stream(self, admitted: AdmittedRequest) -> web.StreamResponse:
        edge, request, caller = self._edge, admitted.request, admitted.caller
        if request.method != "GET":
            return _only(admitted, "GET")
        if full := edge.streams.take(caller.principal.person):
            return refusal(503, codes.LIMITED, full, headers=admitted.extra)
        out = EventStream("sse", keep_bytes=0)
        duplex = Duplex(
            edge.dispatcher,
            edge.sessions,
            caller,
            out,
            edge.batches,
            json_depth=None,
            account=edge.shares.account_on(admitted.connection, share_of(caller)),
        )
        key = secrets.token_hex(16)
        self._open[key] = (duplex, caller.principal)
        edge.streams.add_pipe(out, caller.principal)
        writing: asyncio.Task[bool] | None = None
        try:
            if edge.replicas is not None:
                await edge.replicas.claim(key)
            response = new_stream(admitted)
            await response.prepare(request)
            out.on_held = partial(tell_held, request)
            path = f"{self._messages}?session_id={key}"
            await response.write(b"event: endpoint\ndata: %b\n\n" % path.encode())
            writing = start(
                while_valid(caller.principal, pump(response.write, out, ids=False)),
                "events of a client",
            )
            try:
                await shielded(writing)
            except asyncio.CancelledError:
                if not answered_overdue(admitted):
                    raise
                duplex.run_out()  # the stream ends after those answers: `end_streams`
                await writing
            await response.write_eof()
            return response
        finally:
            await stop(writing)
            writing = None  # whose error would hold this frame
            edge.streams.give_back(caller.principal.person)
            edge.streams.drop_pipe(out)
            out.on_held = None
            del self._open[key]
            await duplex.close()
            if edge.replicas is not None:
                await edge.replicas.release(key)

    async def _message(self, admitted: AdmittedRequest) -> web.StreamResponse:
        edge, request = self._edge, admitted.request
        if request.method != "POST":
            return _only(admitted, "POST")
        id = request.query.get("session_id", "")
        duplex, owner = self._open.get(id, (None, admitted.caller.principal))
        alone = edge.replicas is None or was_passed(admitted)
        if owner.key != admitted.caller.principal.key or (duplex is None and alone):
            edge.dispatcher.refused(admitted.caller, "http_404")
            return _no_session(admitted)
        if duplex is not None:
            duplex.seen_as(admitted.caller.principal)
        account = edge.shares.account_on(admitted.connection, share_of(admitted.caller))
        crowded = edge.shares.enter(account)
        try:
            if crowded:
                await edge.shares.turn(account)
            body = await edge.bodies.read(request)
            if body is None:
                message = f"the body is larger than {edge.body_bytes:,} bytes"
                return refusal(413, codes.INVALID_REQUEST, message, headers=admitted.extra)
            await edge.admission.confirm(admitted)
            if duplex is None:
                admitted.body = body
                return await self._elsewhere(admitted, id)
            if duplex.closed:  # meanwhile
                return _no_session(admitted)
            await duplex.take(body, _headers_of(duplex.headers, admitted.caller.headers))
        except Malformed as bad:
            if duplex is None:
                edge.dispatcher.refused(admitted.caller, bad.code)
                raise
            await duplex.refuse(bad.code, bad.message, bad.id)  # answers are for the stream
        finally:
            edge.shares.leave(account)
        return web.Response(status=202, text="Accepted", headers=dict(admitted.extra))

    async def _elsewhere(self, admitted: AdmittedRequest, id: str) -> web.StreamResponse:
        """Forward the message to the replica that has the stream."""
        replicas = self._edge.replicas
        answer = None if replicas is None else await replicas.elsewhere(admitted, id)
        if answer is not None:
            return answer
        self._edge.dispatcher.refused(admitted.caller, "http_404")
        return _no_session(admitted)


def _headers_of(opened: Mapping[str, str], posted: Mapping[str, str]) -> Mapping[str, str] | None:
    """The headers of one message: those of its stream, overridden by its own; None: the
    stream's.
    """
    own = [line for line in posted.items() if line[0].lower().startswith(_OF_ONE_MESSAGE)]
    if not own:
        return None
    said = {name.lower() for name, _ in own}
    kept = [line for line in opened.items() if line[0].lower() not in said]
    return CIMultiDict([*kept, *own])


def _no_session(admitted: AdmittedRequest) -> web.StreamResponse:
    message = "no such session; open /sse first"
    return refusal(404, codes.INVALID_REQUEST, message, headers=admitted.extra)


def _only(admitted: AdmittedRequest, method: str) -> web.StreamResponse:
    headers = {**admitted.extra, "Allow": method}
    message = f"{admitted.request.method} is not served here; use {method}"
    return refusal(405, codes.INVALID_REQUEST, message, headers=headers)
