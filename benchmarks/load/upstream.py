"""The upstream under every target: a dual-era MCP server that does next to nothing.

Owns: `tools/list` with a chosen number of tools and `tools/call` of `echo`, which answers a text
of `bytes` characters, as JSON (`/mcp`) or SSE (`/sse-mcp`), or over stdio (`--stdio`).
"""

from __future__ import annotations

import argparse
import sys
import uuid
from typing import Any

import msgspec
from aiohttp import web

MODERN = "2026-07-28"
_encode = msgspec.json.encode
_cache: dict[int, str] = {}


def _tools(count: int) -> list[dict[str, Any]]:
    schema = {
        "type": "object",
        "properties": {"bytes": {"type": "integer", "description": "Length of the answer"}},
    }
    return [
        {
            "name": "echo" if i == 0 else f"tool_{i}",
            "description": f"Answers with a text of the length asked for, variant {i}.",
            "inputSchema": schema,
        }
        for i in range(count)
    ]


class Server:
    """Answers one decoded message; state-free but for the tool list."""

    def __init__(self, tools: int) -> None:
        self.tools = _tools(tools)

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The response to a request, or None for a notification."""
        if "id" not in message:
            return None
        method, params = message.get("method"), message.get("params") or {}
        modern = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
        result: dict[str, Any]
        info = {"name": "bench", "version": "1"}
        if method == "tools/call":
            size = int((params.get("arguments") or {}).get("bytes", 16))
            text = _cache.setdefault(size, "x" * size)
            result = {"content": [{"type": "text", "text": text}]}
        elif method == "tools/list":
            result = {"tools": self.tools}
            if modern:
                result |= {"ttlMs": 60000, "cacheScope": "public"}
        elif method == "server/discover" and modern:
            result = {
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {}},
                "serverInfo": info,
                "ttlMs": 60000,
                "cacheScope": "public",
            }
        elif method == "initialize":
            version = params.get("protocolVersion", "2025-11-25")
            version = "2025-11-25" if version == MODERN else version
            return {
                "jsonrpc": "2.0",
                "id": message["id"],
                "result": {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                },
            }
        elif method == "ping":
            result = {}
        else:
            error = {"code": -32601, "message": f"no method {method!r}"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        if modern:
            result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def http_app(server: Server) -> web.Application:
    """`/mcp` answers JSON, `/sse-mcp` one SSE event."""

    async def handle(request: web.Request) -> web.Response:
        message = msgspec.json.decode(await request.read())
        reply = server.answer(message)
        if reply is None:
            return web.Response(status=202)
        headers = {}
        if message.get("method") == "initialize":
            headers["Mcp-Session-Id"] = uuid.uuid4().hex
        status = 404 if reply.get("error", {}).get("code") == -32601 else 200
        if request.path == "/sse-mcp" and message.get("method") == "tools/call":
            return web.Response(
                body=b"event: message\ndata: " + _encode(reply) + b"\n\n",
                content_type="text/event-stream",
            )
        return web.Response(
            body=_encode(reply), content_type="application/json", headers=headers, status=status
        )

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=405)

    app = web.Application(client_max_size=1 << 24)
    for path in ("/mcp", "/sse-mcp"):
        app.router.add_post(path, handle)
        app.router.add_get(path, refuse)
        app.router.add_delete(path, refuse)
    return app


def serve_stdio(server: Server) -> None:
    """One JSON message a line."""
    for line in sys.stdin.buffer:
        reply = server.answer(msgspec.json.decode(line))
        if reply is not None:
            sys.stdout.buffer.write(_encode(reply) + b"\n")
            sys.stdout.buffer.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tools", type=int, default=10)
    parser.add_argument("--stdio", action="store_true")
    args = parser.parse_args()
    server = Server(args.tools)
    if args.stdio:
        serve_stdio(server)
    else:
        web.run_app(http_app(server), host="127.0.0.1", port=args.port, print=None)


if __name__ == "__main__":
    main()
