"""A closed-loop load driver on bare asyncio: `c` connections, each one request at a time.

Owns: HTTP/1.1 over kept-alive sockets, as cheap as Python allows, so that it is not what is
measured. Prints one JSON object: requests, seconds, latencies' p50 and p99 (ms), errors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from urllib.parse import urlsplit

MODERN = "2026-07-28"


class Connection:
    """One kept-alive connection to `url`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.path = parts.path + (f"?{parts.query}" if parts.query else "")
        self.headers = ""

    async def open(self) -> None:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection(
            self.host, self.port, limit=1 << 22
        )

    async def post(self, body: bytes, extra: str = "") -> tuple[int, dict[str, str], bytes]:
        """One POST; (status, lower-case headers, body)."""
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"{self.headers}{extra}Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        raw = await self.reader.readuntil(b"\r\n\r\n")
        status, *lines = raw.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines if x)}
        if "chunked" in headers.get("transfer-encoding", ""):
            parts = []
            while size := int(await self.reader.readline(), 16):
                parts.append((await self.reader.readexactly(size + 2))[:-2])
            await self.reader.readline()
            content = b"".join(parts)
        else:
            length = int(headers.get("content-length", 0))
            content = await self.reader.readexactly(length) if length else b""
        return int(status.split()[1]), headers, content


def modern_meta(**extra: object) -> dict[str, object]:
    """The `_meta` that every modern request carries."""
    return {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        **extra,
    }


async def prepare(connection: Connection, era: str, method: str, name: str) -> None:
    """Headers of every request; on legacy the handshake first."""
    await connection.open()
    if era == "modern":
        connection.headers = f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n" + (
            f"Mcp-Name: {name}\r\n" if method == "tools/call" else ""
        )
        return
    hello = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    }
    status, headers, content = await connection.post(json.dumps(hello).encode())
    if status != 200:
        raise SystemExit(f"initialize answered {status}: {content[:200]!r}")
    connection.headers = "MCP-Protocol-Version: 2025-11-25\r\n"
    if "mcp-session-id" in headers:
        connection.headers += f"Mcp-Session-Id: {headers['mcp-session-id']}\r\n"
    await connection.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')


async def run(args: argparse.Namespace) -> dict[str, float]:
    """The measurement."""
    params: dict[str, object]
    if args.method == "tools/call":
        params = {"name": args.name, "arguments": {"bytes": args.bytes}}
    else:
        params = {}
    meta: dict[str, object] = modern_meta() if args.era == "modern" else {}
    if args.query:
        meta["dev.armory/query"] = args.query
    if meta:
        params["_meta"] = meta
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": args.method, "params": params}).encode()
    connections = [Connection(args.url) for _ in range(args.concurrency)]
    for connection in connections:
        await prepare(connection, args.era, args.method, args.name)
    latencies: list[float] = []
    errors = 0
    left = args.requests

    async def loop(connection: Connection) -> None:
        nonlocal left, errors
        while left > 0:
            left -= 1
            begun = time.perf_counter()
            status, _, content = await connection.post(body)
            latencies.append(time.perf_counter() - begun)
            if status != 200 or b'"result"' not in content or b'"isError":true' in content:
                errors += 1

    begun = time.perf_counter()
    await asyncio.gather(*(loop(c) for c in connections))
    seconds = time.perf_counter() - begun
    for connection in connections:
        connection.writer.close()
    latencies.sort()
    count = len(latencies)
    return {
        "requests": count,
        "seconds": seconds,
        "rps": count / seconds,
        "p50_ms": 1000 * latencies[count // 2],
        "p99_ms": 1000 * latencies[min(count - 1, int(count * 0.99))],
        "errors": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--era", choices=["modern", "legacy"], default="modern")
    parser.add_argument("--method", default="tools/call")
    parser.add_argument("--name", default="echo")
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument("--query", default=None)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--requests", type=int, default=2000)
    print(json.dumps(asyncio.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
