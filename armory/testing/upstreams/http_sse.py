"""The HTTP+SSE transport of a scripted upstream: one long stream, and an address to POST to.

Owns: the streams and the requests that came for them. Never imports the gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from aiohttp import web

from armory.tasks import Tasks
from armory.testing.upstreams.exchange import Json, Questions, RpcFailure, Stop
from armory.testing.upstreams.script import Script

STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
"""Headers of a response that is an event stream."""


@dataclass
class _Inbox:
    """One client's stream, and its capabilities."""

    stream: web.StreamResponse
    capabilities: Json = field(default_factory=dict[str, Any])


class _Wire:
    """One request that arrived for a stream."""

    era = "legacy"

    def __init__(self, server: Inboxes, http: web.Request, inbox: _Inbox) -> None:
        self.session = http.match_info["inbox"]
        self.capabilities: Mapping[str, Any] = inbox.capabilities
        self._stream = inbox.stream
        self._server = server
        self._http = http

    async def send(self, message: Json) -> None:
        await self.send_bytes(json.dumps(message).encode())

    async def send_bytes(self, data: bytes) -> None:
        await self._stream.write(b"data: " + data + b"\n\n")

    async def ask(self, method: str, params: Json) -> Json:
        message, answer = self._server.questions.ask(method, params)
        await self.send(message)
        return await answer

    async def announce(self, method: str, params: Json) -> None:
        await self._server.announce(method, params)

    async def crash(self) -> None:
        abort(self._http)


def abort(http: web.Request) -> None:
    """Cut the connection of a request."""
    assert http.transport is not None
    http.transport.abort()


class Inboxes:
    """`GET /sse` opens a stream; its first event names the address for the client's messages.

    Args:
        script: gives what answers now; a test may replace it.
        questions: the server's own requests.
        announce: sends a notification outside any request.
    """

    def __init__(
        self,
        script: Callable[[], Script],
        questions: Questions,
        announce: Callable[[str, Json], Awaitable[None]],
    ) -> None:
        self._script = script
        self.questions = questions
        self.announce = announce
        self._open: dict[str, _Inbox] = {}
        self._tasks = Tasks()

    def routes(self) -> list[web.RouteDef]:
        """The routes to serve."""
        return [web.get("/sse", self._get), web.post("/messages/{inbox}", self._post)]

    def streams(self) -> list[web.StreamResponse]:
        """The open streams."""
        return [inbox.stream for inbox in self._open.values()]

    def forget(self) -> None:
        """Forget all sessions; their streams stay open."""
        self._open.clear()

    def cancel(self) -> None:
        """Cancel all requests that are being answered."""
        self._tasks.cancel()

    async def _get(self, http: web.Request) -> web.StreamResponse:
        name = uuid4().hex
        stream = web.StreamResponse(headers=STREAM)
        await stream.prepare(http)
        await stream.write(f"event: endpoint\ndata: /messages/{name}\n\n".encode())
        self._open[name] = _Inbox(stream)
        try:
            await asyncio.Event().wait()
        finally:
            self._open.pop(name, None)
        return stream

    async def _post(self, http: web.Request) -> web.Response:
        inbox = self._open.get(http.match_info["inbox"])
        if inbox is None:
            return web.Response(status=404)
        message = json.loads(await http.read())
        self._script().received.append(message)
        if "method" not in message:
            self.questions.answered(message)
        elif "id" not in message:
            if message["method"] == "notifications/cancelled":
                self._script().cancelled.append(message["params"]["requestId"])
        else:
            if message["method"] == "initialize":
                inbox.capabilities.update(message["params"]["capabilities"])
            self._tasks.spawn(self._serve(message, _Wire(self, http, inbox)), "request")
        return web.Response(status=202, text="Accepted")

    async def _serve(self, message: Json, wire: _Wire) -> None:
        with suppress(ConnectionResetError, Stop, RpcFailure):
            answer = await self._script().answer(message, wire)
            if answer is not None:
                await wire.send(answer)
