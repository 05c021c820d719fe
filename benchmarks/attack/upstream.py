"""An upstream that is honest until a file appears, and hostile in one way while it is there.

Owns: the ways (`KINDS`), over HTTP (`--port`) and stdio; and tools whose answers are hostile
(`CALLS`), whoever calls them. Linux only; listens on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

STDIO_KINDS = (
    "garbage", "pings", "answers", "stderr", "changed", "progress", "crash", "silent", "deep",
    "endless", "wide",
)  # fmt: skip
HTTP_KINDS = (
    "stream-garbage", "stream-pings", "stream-changed", "stream-endless", "stream-retry",
    "endless-header", "endless-reason", "redirects", "refusals", "many", "trickle",
)  # fmt: skip
LARGE_KINDS = ("paged",)
"""Over HTTP as well; as much as the limits allow, so it needs more memory than the bar."""
KINDS = ("none", *STDIO_KINDS, *HTTP_KINDS, *LARGE_KINDS)
CALLS = ("echo", "large", "nested", "surrogates", "hang", "dribble", "ask", "wide", "links")
DESCRIPTIONS = ("reads the weather of a place", "sends a mail", "books a table", "adds an issue")
LARGE = 15_000_000
MANY = 100_000
PAGED, PAGE = 250_000, 1_000
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
PROGRESS = {
    "jsonrpc": "2.0",
    "method": "notifications/progress",
    "params": {"progressToken": 1, "progress": 1},
}
WIDE = {
    "jsonrpc": "2.0",
    "method": "notifications/progress",
    "params": {"progressToken": [[]] * 30_000, **{f"k{i}": 0 for i in range(3_000)}},
}
ANSWER: dict[str, Any] = {"jsonrpc": "2.0", "id": 999_999, "result": {}}
_SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}}


class Switch:
    """Whether the file is there; looked at every tenth of a second at most."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._next = 0.0
        self._on = False

    def on(self) -> bool:
        """Whether to be hostile now."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 0.1
            self._on = self._file.exists()
        return self._on


def tools(kind: str, hostile: bool, count: int) -> str:
    """The JSON of `tools/list`'s result."""
    plain = [{"name": name, "description": name, "inputSchema": _SCHEMA} for name in CALLS]
    many = MANY if kind == "many" and hostile else count
    plain += [
        {"name": f"tool{i}", "description": f"{DESCRIPTIONS[i % 4]}, number {i}", "inputSchema": {}}
        for i in range(many)
    ]
    text = json.dumps(plain)
    if kind == "deep" and hostile:
        deep = '{"name":"deep","inputSchema":' + '{"properties":{"x":' * 2_000 + "{}" + "}}" * 2_000
        text = f"{text[:-1]},{deep}}}]"
    return f'{{"tools":{text}}}'


def page(cursor: int) -> str:
    """The JSON of one page of `PAGED` tools."""
    listed = [
        {"name": f"tool{i}", "description": f"{DESCRIPTIONS[i % 4]}, number {i}", "inputSchema": {}}
        for i in range(cursor, min(cursor + PAGE, PAGED))
    ]
    said: dict[str, Any] = {"tools": listed}
    if cursor + PAGE < PAGED:
        said["nextCursor"] = str(cursor + PAGE)
    return json.dumps(said)


def called(name: str, arguments: dict[str, Any]) -> str | None:
    """The JSON of a call's result; None: there is none."""
    if name == "hang":
        return None
    if name == "nested":
        inner = '{"x":' * 1_500 + "1" + "}" * 1_500
        return f'{{"content":[],"structuredContent":{inner}}}'
    if name == "surrogates":
        text = '[{"type":"text","text":"\\ud800 \\udfff"}]'
        return f'{{"content":{text},"structuredContent":{{"\\ud800":1}}}}'
    if name == "wide":
        inner = ",".join(f'"k{i:x}":0' for i in range(1_000_000))
        return f'{{{inner},"content":[],"structuredContent":{{"x":[{"[]," * 1_000_000}0]}}}}'
    if name == "links":
        link = '{"type":"resource_link","uri":"a:b","name":"a"},'
        return f'{{"content":[{link * 100_000}{{"type":"text","text":"a"}}]}}'
    text = "x" * (int(arguments.get("size") or LARGE) if name == "large" else 10)
    return json.dumps({"content": [{"type": "text", "text": text}]})


def answer(message: dict[str, Any], kind: str, hostile: bool, count: int) -> str | None:
    """The JSON of any request's answer; None: it gets none."""
    method, params = message["method"], message.get("params") or {}
    result: str | None = "{}"
    if method == "initialize":
        said = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": kind, "version": "1"},
        }
        result = json.dumps(said)
    elif method == "tools/list" and kind == "paged" and hostile:
        result = page(int(params.get("cursor") or 0))
    elif method == "tools/list":
        result = tools(kind, hostile, count)
    elif method == "tools/call":
        result = called(params.get("name", ""), params.get("arguments") or {})
    elif method != "ping":
        error = '{"code":-32601,"message":"no such method"}'
        return f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"error":{error}}}'
    if result is None:
        return None
    return f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{result}}}'


# -- over pipes ------------------------------------------------------------------------------------


def stdio(kind: str, switch: Switch, count: int) -> None:
    """Answer lines; hostile from a thread of its own."""
    out, lock = sys.stdout.buffer, threading.Lock()

    def say(data: bytes) -> None:
        with lock:
            out.write(data)
            out.flush()

    threading.Thread(target=_harass, args=(kind, switch, say), daemon=True).start()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        hostile = switch.on()
        if hostile and kind == "silent":
            continue
        if (said := answer(message, kind, hostile, count)) is not None:
            say(said.encode() + b"\n")


def _harass(kind: str, switch: Switch, say: Callable[[bytes], None]) -> None:
    repeated = {
        "garbage": b"no JSON at all\n{}\n",
        "pings": json.dumps(PING).encode() + b"\n",
        "answers": json.dumps(ANSWER).encode() + b"\n",
        "changed": json.dumps(CHANGED).encode() + b"\n",
        "progress": json.dumps(PROGRESS).encode() + b"\n",
        "endless": b"x" * 1_000,
        "wide": json.dumps(WIDE).encode() + b"\n",
    }
    before = False
    while True:
        on = switch.on()
        if on and kind == "crash":
            os._exit(3)
        if on and kind == "stderr":
            os.write(2, b"trouble\n" * 1_000)
        elif on and kind in repeated:
            say(repeated[kind] * 100)
        else:
            if on != before and kind == "deep":
                say(json.dumps(CHANGED).encode() + b"\n")
            time.sleep(0.1)
        before = on


# -- over HTTP -------------------------------------------------------------------------------------


class Server:
    """Streamable HTTP with sessions and an event stream.

    Args:
        kind: how it is hostile.
        switch: whether it is so now.
        count: tools beside those of `CALLS`.
    """

    def __init__(self, kind: str, switch: Switch, count: int) -> None:
        self._kind = kind
        self._switch = switch
        self._count = count

    def app(self) -> web.Application:
        """What serves it."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{tail:.*}", self.post)
        app.router.add_get("/{tail:.*}", self.stream)
        app.router.add_delete("/{tail:.*}", self.gone)
        return app

    async def gone(self, _request: web.Request) -> web.Response:
        """A session's end."""
        return web.Response(status=204)

    async def post(self, request: web.Request) -> web.StreamResponse:
        """One message."""
        message = json.loads(await request.read())
        if "id" not in message or "method" not in message:
            return web.Response(status=202)
        kind, hostile = self._kind, self._switch.on()
        if hostile and kind in ("endless-header", "endless-reason"):
            return await self._endless(request)
        if hostile and kind == "redirects":
            return web.Response(status=307, headers={"Location": f"/{uuid.uuid4().hex}"})
        if hostile and kind == "refusals":
            return web.Response(status=401, headers={"WWW-Authenticate": 'a="\\' * 2_000})
        said = answer(message, kind, hostile, self._count)
        if said is None:
            await asyncio.sleep(3_600)
            raise web.HTTPGatewayTimeout
        name = (message.get("params") or {}).get("name")
        if (hostile and kind == "trickle") or name == "dribble":
            return await self._dribble(request, said.encode())
        headers = {"Mcp-Session-Id": uuid.uuid4().hex} if message["method"] == "initialize" else {}
        if name == "ask":
            return await self._ask(request, said)
        return web.Response(text=said, content_type="application/json", headers=headers)

    async def _dribble(self, request: web.Request, said: bytes) -> web.StreamResponse:
        """An answer that is never whole: ten bytes a second of a megabyte of spaces."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b" " * 1_000_000)
        for _ in range(3_600):
            await response.write(b" " * 10)
            await asyncio.sleep(1)
        return response

    async def _ask(self, request: web.Request, said: str) -> web.StreamResponse:
        """Questions to the person, one after another."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for i in range(100):
            params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            asked = {"jsonrpc": "2.0", "id": i, "method": "elicitation/create", "params": params}
            await response.write(f"data: {json.dumps(asked)}\n\n".encode())
        await asyncio.sleep(20)
        await response.write(f"data: {said}\n\n".encode())
        return response

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        transport: Any = request.transport
        transport.write(
            b"HTTP/1.1 200 OK\r\nX-" if self._kind == "endless-header" else b"HTTP/1.1 200 "
        )
        for _ in range(1_000):
            if transport.is_closing():
                break
            transport.write(b"x" * 65_536)
            await asyncio.sleep(0)
        transport.abort()
        return web.Response()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """The event stream of a session."""
        kind = self._kind
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        before = self._switch.on()
        repeated = {
            "stream-garbage": b"data: no JSON\n\nwhat: ever\n\n",
            "stream-pings": b"data: " + json.dumps(PING).encode() + b"\n\n",
            "stream-changed": b"data: " + json.dumps(CHANGED).encode() + b"\n\n",
            "stream-endless": b"data: " + b"x" * 1_000 + b"\n",
        }
        while True:
            on = self._switch.on()
            if on and kind == "stream-retry":
                await response.write(b"retry: 0\n\n")
                return response
            if on and kind in repeated:
                await response.write(repeated[kind] * 100)
                await asyncio.sleep(0)
                continue
            if on != before and kind in ("many", "paged"):
                await response.write(b"data: " + json.dumps(CHANGED).encode() + b"\n\n")
            before = on
            await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, default="none")
    parser.add_argument("--switch", type=Path, default=Path("/nonexistent"))
    parser.add_argument("--port", type=int, default=0, help="0: over stdio")
    parser.add_argument("--tools", type=int, default=0, help="tools beside those of its attacks")
    args = parser.parse_args()
    switch = Switch(args.switch)
    if not args.port:
        stdio(args.kind, switch, args.tools)
        return
    app = Server(args.kind, switch, args.tools).app()
    web.run_app(app, host="127.0.0.1", port=args.port, print=None, shutdown_timeout=0.1)


if __name__ == "__main__":
    main()
