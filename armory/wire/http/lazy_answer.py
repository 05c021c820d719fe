"""The answer to a modern request: JSON, or an event stream where something comes before the result.

Owns: `LazyAnswer`.
"""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web

from armory.protocol import jsonrpc
from armory.protocol.link import Reply
from armory.tasks import spawn, start
from armory.wire.errors import status_of
from armory.wire.http.admitted import AdmittedRequest, json_answer, new_stream
from armory.wire.http.answers import write_event
from armory.wire.http.keepalive import KeepaliveTimer
from armory.wire.messages import encoded
from armory.wire.streams import PING, frame


class LazyAnswer:
    """The answer to a modern request: JSON, unless something must be said before the result.

    A client that accepts event streams gets one as soon as there is a notification, or after 15
    seconds of silence, so that proxies keep the connection.
    """

    def __init__(self, admitted: AdmittedRequest, keepalive: KeepaliveTimer) -> None:
        self._admitted = admitted
        self._keepalive = keepalive
        self._response: web.StreamResponse | None = None
        self._opening: asyncio.Task[web.StreamResponse] | None = None
        self._pinging: asyncio.Task[None] | None = None
        if admitted.takes_sse:
            keepalive.add(self)

    def keep_alive(self) -> None:
        """Keep the connection of a client that waits."""
        self._pinging = spawn(self._ping(), "keep-alive of a client")

    async def _ping(self) -> None:
        with contextlib.suppress(ConnectionError):
            response = await self._open()
            await response.write(PING)

    async def _open(self) -> web.StreamResponse:
        if self._response is not None:
            return self._response
        if self._opening is None:
            self._opening = start(self._start(), "headers of an answer")
        return await asyncio.shield(self._opening)

    async def _start(self) -> web.StreamResponse:
        response = new_stream(self._admitted)
        await response.prepare(self._admitted.request)
        self._response = response
        return response

    async def event(self, data: bytes) -> None:
        """Say something before the result; lost on clients that take JSON only."""
        if not self._admitted.takes_sse:
            return
        response = await self._open()
        await response.write(frame(data))

    async def finish(self, id: bytes, reply: Reply) -> web.StreamResponse:
        """The result."""
        self.stop()
        if self._opening is not None or not self._admitted.takes_json:
            response = await self._open()
            parts = (
                (encoded(id, reply),)
                if reply.error is not None
                else jsonrpc.response_parts(id, reply.parts)
            )
            await write_event(self._admitted.request, response, parts)
            await response.write_eof()
            return response
        if reply.error is not None:
            return json_answer(self._admitted, encoded(id, reply), status_of(reply.error))
        return json_answer(self._admitted, jsonrpc.response_parts(id, reply.parts))

    def stop(self) -> None:
        """No more keep-alives."""
        self._keepalive.drop(self)
        if self._pinging is not None:
            self._pinging.cancel()
            self._pinging = None
