"""A scripted HTTP upstream in this process: modern and legacy Streamable HTTP, beside HTTP+SSE.

Owns: `HttpUpstream`, Streamable HTTP, and its faults. Never imports the gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from aiohttp import web
from aiohttp.typedefs import Handler
from mcp.shared.inbound import (
    InboundLadderRejection,
    classify_inbound_request,
    validate_mcp_param_headers,
)

from armory.testing.upstreams.exchange import PREFIX, Json, Questions, notification
from armory.testing.upstreams.http_sse import STREAM, Inboxes, abort
from armory.testing.upstreams.script import Script


class _Wire:
    """One request over HTTP: its stream is opened with the first message."""

    def __init__(self, server: HttpUpstream, http: web.Request, era: str) -> None:
        self.era = era
        self.session = http.headers.get("Mcp-Session-Id", "")
        self.capabilities: Mapping[str, Any] = server.sessions.get(self.session, {})
        self.stream: web.StreamResponse | None = None
        self._server = server
        self._http = http

    async def send(self, message: Json) -> None:
        await self.send_bytes(json.dumps(message).encode())

    async def send_bytes(self, data: bytes) -> None:
        if self.stream is None:
            self.stream = web.StreamResponse(headers=STREAM)
            await self.stream.prepare(self._http)
            await self.stream.write(b": hello\n\n")
        await self.stream.write(await self._server.framed(self.session, data))

    async def ask(self, method: str, params: Json) -> Json:
        message, answer = self._server.questions.ask(method, params)
        stream = self._server.gets.get(self.session) if self._server.ask_on_get else None
        if stream is not None:
            await stream.write(b"data: " + json.dumps(message).encode() + b"\n\n")
        else:
            await self.send(message)
        return await answer

    async def announce(self, method: str, params: Json) -> None:
        await self._server.announce(method, params)

    async def crash(self) -> None:
        abort(self._http)


class HttpUpstream:
    """An MCP server over HTTP; `async with HttpUpstream() as upstream: upstream.url`.

    Args:
        script: what it answers.
        eras: which eras `/mcp` speaks: "modern", "legacy", "both", or "" for neither (then only
            `/sse` serves).
        stream: whether answers come as event streams even where JSON would do.
        offers_get: whether the legacy GET stream exists.

    Attributes:
        requests: headers and body of every POST, in order.
        questions: its own requests to clients.
        sessions: capabilities by session id; clear it and every session has expired.
        unknown_session: status and text for requests of another session.
        fail_with: answer every request with this HTTP status.
        retry_after: its `Retry-After`, with a body of JSON; empty: neither.
        refuses_in_json: whether a POST to `/sse` is turned away with a JSON-RPC error.
        tokens: access tokens, one of which every request has to carry; None: it needs none.
        no_login: what it says to a request without one.
        carried: method and access token of each request, while it needs one.
        drop_streams: the next legacy answers break off after their first event and can be resumed.
        ask_on_get: put requests of the server's own on the GET stream.
        inboxes: the streams of HTTP+SSE.
        peers: address and port of every connection that a POST came on.
        disconnected: set when a client went away before its answer.
        lists_stay: refuse `subscriptions/listen`.
        honours: members of a filter that are acknowledged, None: all; where that leaves none, the
            stream ends at once, as those of some SDKs.
        unknown: resources for which `subscriptions/listen` is refused.
    """

    def __init__(
        self,
        script: Script | None = None,
        eras: str = "both",
        *,
        stream: bool = False,
        offers_get: bool = True,
    ) -> None:
        self.script = script or Script()
        self.eras = eras
        self.stream = stream
        self.offers_get = offers_get
        self.requests: list[tuple[Mapping[str, str], Json]] = []
        self.sessions: dict[str, Json] = {}
        self.unknown_session: tuple[int, str] = (404, "session not found")
        self.deleted: list[str] = []
        self.gets: dict[str, web.StreamResponse] = {}
        self.get_opened = asyncio.Event()
        self.listens: dict[Any, tuple[web.StreamResponse, Json]] = {}
        self.fail_with: int | None = None
        self.retry_after = ""
        self.refuses_in_json = False
        self.tokens: set[str] | None = None
        self.no_login = ""
        self.carried: list[tuple[str, str]] = []
        self.drop_streams = 0
        self.resumed: list[str] = []
        self.ask_on_get = False
        self.lists_stay = False
        self.honours: frozenset[str] | None = None
        self.unknown: set[str] = set()
        self.disconnected = asyncio.Event()
        self.peers: set[Any] = set()
        self._dropped = asyncio.Event()
        self.url = ""
        self.sse_url = ""
        self.questions = Questions()
        self._unsent: dict[str, bytes] = {}
        self.inboxes = Inboxes(lambda: self.script, self.questions, self.announce)
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def __aenter__(self) -> HttpUpstream:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; on the same port again if it was stopped."""
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[self._guard])
        app.router.add_post("/mcp", self._post)
        app.router.add_get("/mcp", self._get)
        app.router.add_delete("/mcp", self._delete)
        app.router.add_post("/sse", self._no_post)
        app.add_routes(self.inboxes.routes())
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])
        self.url = f"http://127.0.0.1:{self._port}/mcp"
        self.sse_url = f"http://127.0.0.1:{self._port}/sse"

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        self.inboxes.cancel()
        self.gets.clear()
        self.listens.clear()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def announce(self, method: str, params: Json | None = None) -> None:
        """Send a notification outside any request, on every open stream."""
        note = notification(method, params or {})
        for stream in (*self.gets.values(), *self.inboxes.streams()):
            await stream.write(b"event: message\ndata: " + json.dumps(note).encode() + b"\n\n")
        for request_id, (stream, wanted) in tuple(self.listens.items()):
            if method == "notifications/tasks" and "taskIds" not in wanted:
                continue
            meta = {"_meta": {f"{PREFIX}subscriptionId": request_id}}
            stamped = notification(method, {**(params or {}), **meta})
            await stream.write(b"data: " + json.dumps(stamped).encode() + b"\n\n")

    def end_streams(self) -> None:
        """End every GET and every `subscriptions/listen` stream."""
        dropped, self._dropped = self._dropped, asyncio.Event()
        dropped.set()

    async def framed(self, session: str, data: bytes) -> bytes:
        """One event; if the session is to lose its stream, an empty event with an id."""
        if session and self.drop_streams:
            self._unsent[f"{session}-1"] = data
            return b"id: " + f"{session}-1".encode() + b"\nretry: 10\ndata: \n\n"
        return b"data: " + data + b"\n\n"

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.tokens is not None:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            self.carried.append((request.method, token))
            if token not in self.tokens:
                return web.Response(status=401, text=self.no_login)
        return await handler(request)

    async def _no_post(self, http: web.Request) -> web.Response:
        if not self.refuses_in_json:
            return web.Response(status=405)
        error = {"code": -32000, "message": "Method not allowed."}
        return web.json_response({"jsonrpc": "2.0", "id": None, "error": error}, status=405)

    async def _post(self, http: web.Request) -> web.StreamResponse:
        if self.fail_with is not None and self.retry_after:
            headers = {"Retry-After": self.retry_after}
            return web.json_response({"error": "busy"}, status=self.fail_with, headers=headers)
        if self.fail_with is not None:
            return web.Response(status=self.fail_with, text="failing on purpose")
        if not self.eras:
            return web.Response(status=405)
        assert http.transport is not None
        self.peers.add(http.transport.get_extra_info("peername"))
        message = json.loads(await http.read())
        self.requests.append((dict(http.headers), message))
        self.script.received.append(message)
        meta = (message.get("params") or {}).get("_meta") or {}
        version = http.headers.get("MCP-Protocol-Version", "")
        if self.eras != "legacy" and (
            version == "2026-07-28" or f"{PREFIX}protocolVersion" in meta
        ):
            return await self._modern(http, message)
        if self.eras == "modern":
            return _refusal(message, 400, -32022, "legacy?", {"supported": ["2026-07-28"]})
        return await self._legacy(http, message)

    async def _modern(self, http: web.Request, message: Json) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in http.headers.items()}
        route = classify_inbound_request(message, headers=headers)
        if isinstance(route, InboundLadderRejection):
            return _refusal(message, 400, route.code, route.message, route.data)
        if message["method"] == "tools/call":
            name = message["params"]["name"]
            known = next((tool for tool in self.script.tools if tool.get("name") == name), {})
            wrong = validate_mcp_param_headers(
                known.get("inputSchema"), message["params"].get("arguments") or {}, headers
            )
            if wrong is not None:
                return _refusal(message, 400, wrong.code, wrong.message, wrong.data)
        wire = _Wire(self, http, "modern")
        wire.capabilities = route.client_capabilities
        if message["method"] == "subscriptions/listen":
            return await self._listen(http, message)
        return await self._answered(message, wire)

    async def _legacy(self, http: web.Request, message: Json) -> web.StreamResponse:
        session = http.headers.get("Mcp-Session-Id", "")
        if message.get("method") == "initialize":
            session = uuid4().hex
            self.sessions[session] = message["params"]["capabilities"]
            wire = _Wire(self, http, "legacy")
            response = await self._answered(message, wire)
            response.headers["Mcp-Session-Id"] = session
            return response
        if not session:
            return _refusal(message, 400, -32000, "Bad Request: no session", None)
        if session not in self.sessions:
            status, text = self.unknown_session
            return web.Response(status=status, text=text)
        if "method" not in message:
            self.questions.answered(message)
            return web.Response(status=202)
        if "id" not in message:
            if message["method"] == "notifications/cancelled":
                self.script.cancelled.append(message["params"]["requestId"])
            return web.Response(status=202)
        return await self._answered(message, _Wire(self, http, "legacy"))

    async def _answered(self, message: Json, wire: _Wire) -> web.StreamResponse:
        try:
            answer = await self.script.answer(message, wire)
        except asyncio.CancelledError:
            self.disconnected.set()
            raise
        if answer is None:
            if wire.stream is None:
                return web.Response(status=200, text="{", content_type="application/json")
            return wire.stream
        failed = answer.get("error", {}).get("code")
        if wire.stream is None and failed is not None and wire.era == "modern":
            status = 404 if failed == -32601 else 400 if failed == -32602 else 200
            return web.json_response(answer, status=status)
        if wire.stream is None and (not self.stream or message["method"] == "initialize"):
            return web.json_response(answer)
        with suppress(ConnectionResetError):
            await wire.send(answer)
            if self.drop_streams:
                self.drop_streams -= 1
        assert wire.stream is not None
        return wire.stream

    async def _listen(self, http: web.Request, message: Json) -> web.StreamResponse:
        if self.lists_stay:
            return _refusal(message, 404, -32601, "Method not found", None)
        wanted: Json = message["params"]["notifications"]
        if not self.unknown.isdisjoint(wanted.get("resourceSubscriptions", ())):
            return _refusal(message, 400, -32602, "unknown resource", None)
        stream = web.StreamResponse(headers=STREAM)
        await stream.prepare(http)
        if self.honours is not None:
            wanted = {name: asked for name, asked in wanted.items() if name in self.honours}
        meta = {f"{PREFIX}subscriptionId": message["id"]}
        ack = notification(
            "notifications/subscriptions/acknowledged", {"notifications": wanted, "_meta": meta}
        )
        await stream.write(b"data: " + json.dumps(ack).encode() + b"\n\n")
        if not wanted:
            over: Json = {"jsonrpc": "2.0", "id": message["id"], "result": {"_meta": meta}}
            await stream.write(b"data: " + json.dumps(over).encode() + b"\n\n")
            return stream
        self.listens[message["id"]] = (stream, wanted)
        try:
            await self._dropped.wait()
        finally:
            self.listens.pop(message["id"], None)
        return stream

    async def _get(self, http: web.Request) -> web.StreamResponse:
        session = http.headers.get("Mcp-Session-Id", "")
        last = http.headers.get("Last-Event-ID")
        if session not in self.sessions:
            return web.Response(status=404 if session else 405)
        if last is None and not self.offers_get:
            return web.Response(status=405)
        stream = web.StreamResponse(headers=STREAM)
        await stream.prepare(http)
        if last is not None and last in self._unsent:
            self.resumed.append(last)
            await stream.write(b"data: " + self._unsent.pop(last) + b"\n\n")
            return stream
        self.gets[session] = stream
        self.get_opened.set()
        try:
            await self._dropped.wait()
        finally:
            self.gets.pop(session, None)
        return stream

    async def _delete(self, http: web.Request) -> web.Response:
        session = http.headers.get("Mcp-Session-Id", "")
        self.sessions.pop(session, None)
        self.deleted.append(session)
        return web.Response(status=204)


def _refusal(message: Json, status: int, code: int, text: str, data: Any) -> web.Response:
    error: Json = {"code": code, "message": text}
    if data is not None:
        error["data"] = data
    body = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
    return web.json_response(body, status=status)
