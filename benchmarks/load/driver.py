"""A closed-loop load driver on bare asyncio: `c` connections, each one request at a time.

Owns: HTTP/1.1 over kept-alive sockets and HTTP+SSE, as cheap as Python allows, so that it is not
what is measured. Prints one JSON object: requests, seconds, latencies' p50 and p99 (ms), errors,
and how many requests had no answer when time was up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

MODERN = "2026-07-28"
LIMIT = 1 << 22
AT_ONCE = 32


class Connection:
    """One kept-alive connection to `url`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.path = parts.path + (f"?{parts.query}" if parts.query else "")
        self.headers = ""

    async def open(self) -> None:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=LIMIT)

    async def post(self, body: bytes, extra: str = "") -> tuple[int, dict[str, str], bytes]:
        """One POST; (status, lower-case headers, body)."""
        return await self.send("POST", body, extra)

    async def send(
        self, method: str, body: bytes, extra: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        """One request; (status, lower-case headers, body)."""
        head = (
            f"{method} {self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"{self.headers}{extra}Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        status, headers = await self.head()
        if "chunked" in headers.get("transfer-encoding", ""):
            parts: list[bytes] = []
            while part := await self.chunk():
                parts.append(part)
            content = b"".join(parts)
        else:
            length = int(headers.get("content-length", 0))
            content = await self.reader.readexactly(length) if length else b""
        return status, headers, content

    async def head(self) -> tuple[int, dict[str, str]]:
        """The next response's status and lower-case headers."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        status, *lines = raw.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines if x)}
        return int(status.split()[1]), headers

    async def chunk(self) -> bytes:
        """The next chunk; empty after the last one."""
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:size]

    async def close(self) -> None:
        """End the session, if there is one, and the connection."""
        if "Mcp-Session-Id" in self.headers:
            await self.send("DELETE", b"")
        self.writer.close()


class SsePair(Connection):
    """HTTP+SSE: a stream for the answers, a connection for the messages; the same `post`."""

    async def open(self) -> None:
        """Open the stream, learn where to post, connect there."""
        await super().open()
        self._stream = Connection(f"http://{self.host}:{self.port}{self.path}")
        await self._stream.open()
        head = (
            f"GET {self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            "Accept: text/event-stream\r\n\r\n"
        )
        self._stream.writer.write(head.encode())
        status, headers = await self._stream.head()
        self._chunked = "chunked" in headers.get("transfer-encoding", "")
        if status != 200:
            raise SystemExit(f"GET {self.path} answered {status}")
        self._kept = b""
        self.path = (await self._event()).decode()

    async def _event(self) -> bytes:
        """The data of the next event."""
        while True:
            seen = 0
            while (end := self._kept.find(b"\n\n", max(0, seen - 1))) < 0:
                seen, stream = len(self._kept), self._stream
                more = await (stream.chunk() if self._chunked else stream.reader.read(1 << 16))
                if not more:
                    raise EOFError("the event stream ended")
                self._kept += more.replace(b"\r\n", b"\n")
            event, self._kept = self._kept[:end], self._kept[end + 2 :]
            data = b"\n".join(
                x[5:].lstrip(b" ") for x in event.split(b"\n") if x.startswith(b"data:")
            )
            if data:
                return data

    async def post(self, body: bytes, extra: str = "") -> tuple[int, dict[str, str], bytes]:
        """One message; for a request, the answer that comes over the stream."""
        status, headers, content = await super().post(body, extra)
        if status not in (200, 202) or b'"id"' not in body:
            return status, headers, content
        while True:
            content = await self._event()
            if b'"method"' not in content[:200]:
                return 200, headers, content

    async def close(self) -> None:
        """End both connections."""
        self._stream.writer.close()
        self.writer.close()


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


def body_of(args: argparse.Namespace) -> bytes:
    """The one request that is sent again and again."""
    params: dict[str, object] = {}
    if args.method == "tools/call":
        params = {"name": args.name, "arguments": {"bytes": args.bytes}}
    meta: dict[str, object] = modern_meta() if args.era == "modern" else {}
    if args.query:
        meta["dev.armory/query"] = args.query
    if meta:
        params["_meta"] = meta
    message = {"jsonrpc": "2.0", "id": 7, "method": args.method, "params": params}
    return json.dumps(message).encode()


@dataclass
class Tally:
    """What one phase of calls came to."""

    begun: int = 0
    errors: int = 0
    first_error: str = ""
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list[float])


async def phase(
    connections: list[Connection], body: bytes, limit: int, seconds: float, patience: float
) -> Tally:
    """Calls on every connection until `limit` were begun or `seconds` are over.

    After `patience` more seconds what is still unanswered is given up.
    """
    tally = Tally()
    stop = time.perf_counter() + seconds

    async def loop(connection: Connection) -> None:
        while tally.begun < limit and time.perf_counter() < stop:
            tally.begun += 1
            begun = time.perf_counter()
            status, _, content = await connection.post(body)
            tally.latencies.append(time.perf_counter() - begun)
            if status != 200 or b'"result"' not in content or b'"isError":true' in content:
                tally.errors += 1
                said = " ".join(content[:400].decode(errors="replace").split())
                tally.first_error = tally.first_error or f"HTTP {status} {said}"

    begun = time.perf_counter()
    tasks = [asyncio.create_task(loop(c)) for c in connections]
    done, pending = await asyncio.wait(tasks, timeout=seconds + patience)
    tally.seconds = time.perf_counter() - begun
    for task in pending:
        task.cancel()
    for task in done:
        task.result()
    return tally


def cpu_seconds(pid: int) -> float:
    """User and system time of one process so far, all threads, without its children; 0: none."""
    return time.clock_gettime((~pid << 3) | 2) if pid else 0.0  # as clock_getcpuclockid(3) has it


async def run(args: argparse.Namespace) -> dict[str, float]:
    """The measurement: connect, warm up, measure; connecting is not counted."""
    body = body_of(args)
    kind = SsePair if args.front == "sse" else Connection
    connections = [kind(args.url) for _ in range(args.concurrency)]
    for start in range(0, len(connections), AT_ONCE):
        batch = connections[start : start + AT_ONCE]
        await asyncio.gather(*(prepare(c, args.era, args.method, args.name) for c in batch))
    warm = await phase(connections, body, args.concurrency * 20, args.warm, args.patience)
    if len(warm.latencies) < warm.begun:
        raise SystemExit(f"{warm.begun - len(warm.latencies)} calls of the warm-up had no answer")
    limit = args.requests if args.requests is not None else 1 << 60
    before = cpu_seconds(args.pid)
    tally = await phase(connections, body, limit, args.seconds, args.patience)
    cpu = cpu_seconds(args.pid) - before
    latencies = sorted(tally.latencies)
    count = len(latencies)
    if not count:
        raise SystemExit(f"no answer within {args.seconds + args.patience:.0f} s")
    if tally.errors == count:
        raise SystemExit(f"every call failed: {tally.first_error}")
    if count == tally.begun:
        closing = [asyncio.create_task(connection.close()) for connection in connections]
        await asyncio.wait(closing, timeout=args.patience)
    found = {
        "requests": count,
        "seconds": tally.seconds,
        "rps": count / tally.seconds,
        "p50_ms": 1000 * latencies[count // 2],
        "p99_ms": 1000 * latencies[min(count - 1, int(count * 0.99))],
        "errors": tally.errors,
        "unanswered": tally.begun - count,
    }
    return {**found, "cpu_us": 1e6 * cpu / count} if args.pid else found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--era", choices=["modern", "legacy"], default="modern")
    parser.add_argument("--front", choices=["http", "sse"], default="http")
    parser.add_argument("--method", default="tools/call")
    parser.add_argument("--name", default="echo")
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument("--query", default=None)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--requests", type=int, default=None, help="at most so many")
    parser.add_argument("--seconds", type=float, default=600, help="begin none after so long")
    parser.add_argument("--patience", type=float, default=20, help="wait so long for the last")
    parser.add_argument("--warm", type=float, default=0.3, help="seconds of calls before it counts")
    parser.add_argument("--pid", type=int, default=0, help="process whose CPU time is read")
    print(json.dumps(asyncio.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
