"""An upstream that misbehaves on request: the call's `fault` argument says how.

Owns: one tool, `echo(value, fault)`, over HTTP (`--port`) and stdio (`--stdio`). Faults: `none`,
`late` (answers after 50 ms), `slow`
(after a second), `hang` (never answers), `garbage` (not JSON), `huge` (100 MB),
`twice` (answers two times), `crash` (the process or connection dies), `reset` (half an answer),
`status` (HTTP 500 or a JSON-RPC error).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import uuid
from typing import Any

import msgspec
from aiohttp import web

from benchmarks.load.upstream import MODERN

TOOL = {
    "name": "echo",
    "description": "Gives back the value, or misbehaves as told.",
    "inputSchema": {
        "type": "object",
        "properties": {"value": {"type": "string"}, "fault": {"type": "string"}},
    },
}
HUGE = 100_000_000
_encode = msgspec.json.encode


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The honest response to any request."""
    method, params = message.get("method"), message.get("params") or {}
    modern = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
    info = {"name": "faulty", "version": "1"}
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
    result: dict[str, Any]
    if method == "tools/call":
        value = (params.get("arguments") or {}).get("value", "")
        result = {"content": [{"type": "text", "text": value}]}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "server/discover" and modern:
        result = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    elif method == "ping":
        result = {}
    else:
        return {**reply, "error": {"code": -32601, "message": f"no method {method!r}"}}
    if modern:
        result["resultType"] = "complete"
        if method in ("server/discover", "tools/list"):
            result |= {"ttlMs": 60000, "cacheScope": "public"}
    return {**reply, "result": result}


def fault_of(message: dict[str, Any]) -> str:
    """The misbehaviour that a call asks for."""
    if message.get("method") != "tools/call":
        return "none"
    return str(((message.get("params") or {}).get("arguments") or {}).get("fault", "none"))


async def _broken(request: web.Request, fault: str, body: bytes) -> web.StreamResponse:
    """An answer that stops half-way or never ends."""
    length = {} if fault == "huge" else {"Content-Length": str(len(body))}
    response = web.StreamResponse(headers=length)
    response.content_type = "application/json"
    await response.prepare(request)
    if fault == "huge":
        await response.write(b'{"jsonrpc":"2.0","id":1,"result":{"content":"')
        for _ in range(HUGE // 1_000_000):
            await response.write(b"x" * 1_000_000)
        await response.write(b'"}}')
        return response
    if fault == "reset":
        await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.abort()
    return response


async def _http(request: web.Request) -> web.StreamResponse:
    message = msgspec.json.decode(await request.read())
    if "id" not in message:
        return web.Response(status=202)
    fault, body = fault_of(message), _encode(answer(message))
    if fault in ("late", "slow"):
        await asyncio.sleep(0.05 if fault == "late" else 1.0)
    elif fault == "hang":
        await asyncio.sleep(3600)
    elif fault == "garbage":
        return web.Response(body=b"<html>\x00not json", content_type="application/json")
    elif fault == "status":
        return web.Response(status=500, text="boom")
    elif fault in ("crash", "reset", "huge"):
        return await _broken(request, fault, body)
    elif fault == "twice":
        event = b"event: message\ndata: " + body + b"\n\n"
        return web.Response(body=event + event, content_type="text/event-stream")
    headers = {"Mcp-Session-Id": uuid.uuid4().hex} if message["method"] == "initialize" else {}
    status = 404 if b'"error"' in body[:40] else 200
    return web.Response(body=body, content_type="application/json", headers=headers, status=status)


async def _refuse(_: web.Request) -> web.Response:
    return web.Response(status=405)


def _stdio() -> None:
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = msgspec.json.decode(line)
        if "id" not in message:
            continue
        fault, body = fault_of(message), _encode(answer(message))
        if fault == "hang":
            continue
        if fault == "crash":
            os._exit(3)
        if fault == "garbage":
            out.write(b"\xff\x00 not json\n")
        elif fault == "huge":
            out.write(b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * HUGE + b'"}\n')
        elif fault == "reset":
            out.write(body[: len(body) // 2] + b"\n")
        elif fault == "status":
            out.write(
                _encode(
                    {
                        "jsonrpc": "2.0",
                        "id": message["id"],
                        "error": {"code": -32603, "message": "boom"},
                    }
                )
                + b"\n"
            )
        else:
            out.write((body + b"\n") * (2 if fault == "twice" else 1))
        out.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--exit", action="store_true", help="exit at once, as a crash loop does")
    args = parser.parse_args()
    if args.exit:
        raise SystemExit(7)
    if args.stdio:
        _stdio()
        return
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/mcp", _http)
    app.router.add_get("/mcp", _refuse)
    app.router.add_delete("/mcp", _refuse)
    web.run_app(app, host="127.0.0.1", port=args.port, print=None, shutdown_timeout=0.1)


if __name__ == "__main__":
    main()
