"""A filtered `tools/list` at 100 to 100,000 tools: start-up, restart, latency, CPU and memory.

Owns: the upstream and the readings. The gateway runs on one core, upstream and client on the other.
Catalogs of more than 1,000 tools start with the vectors of `--vectors` (see `vectors.py`), which
are made first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from benchmarks.load import vectors
from benchmarks.load.catalog import SERVER, catalog, queries
from benchmarks.load.driver import Connection, cpu_seconds, modern_meta, prepare
from benchmarks.load.processes import end_on_sigterm, free_port, machine, process, rss_mb, versions
from benchmarks.load.upstream import MODERN

PAGE = 500
CONFIG = """\
server: {{port: {port}}}
upstreams: {{{name}: {{url: "http://127.0.0.1:{upstream}/mcp", call_timeout_s: 600}}}}
tool_rag: {{index: {index}}}
observability: {{log_level: error, query_log: {{enabled: false}}}}
security: {{tokens: {{readiness: {{token: {token}, scopes: [admin]}}}}}}
storage: {{url: "sqlite:///{dir}/armory.db", cache_dir: "{cache}"}}
"""
READINESS = "token-of-readiness"
EMBEDDED_AT_START = 1_000


def upstream_app(tools: list[dict[str, Any]]) -> web.Application:
    """A modern MCP server with pages of 500 tools."""
    pages = [tools[i : i + PAGE] for i in range(0, len(tools), PAGE)]

    async def handle(request: web.Request) -> web.Response:
        message = msgspec.json.decode(await request.read())
        result: dict[str, Any] = {"resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
        match message["method"]:
            case "server/discover":
                info = {"name": SERVER, "version": "1"}
                result |= {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
                result |= {"serverInfo": info}
            case "tools/list":
                page = int(message["params"].get("cursor", 0))
                result["tools"] = pages[page]
                if page + 1 < len(pages):
                    result["nextCursor"] = str(page + 1)
            case "tools/call":
                result["content"] = [{"type": "text", "text": "ok"}]
            case _:
                error = {"code": -32601, "message": "no such method"}
                reply = {"jsonrpc": "2.0", "id": message["id"], "error": error}
                return web.json_response(reply, status=404)
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return web.Response(body=msgspec.json.encode(reply), content_type="application/json")

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/mcp", handle)
    return app


def await_ready(base: str, timeout_s: float) -> float:
    """Seconds until `/readyz` says yes and the meanings are indexed, too."""
    begun = time.monotonic()
    asked = urllib.request.Request(
        f"{base}/readyz", headers={"Authorization": f"Bearer {READINESS}"}
    )
    while time.monotonic() - begun < timeout_s:
        try:
            with urllib.request.urlopen(asked, timeout=5) as answer:
                if answer.status == 200 and not json.load(answer)["not_ready"]:
                    return time.monotonic() - begun
        except (OSError, urllib.error.HTTPError):
            pass
        time.sleep(0.2)
    raise RuntimeError(f"not ready after {timeout_s} s")


async def ask(url: str, texts: list[str], pid: int) -> dict[str, float]:
    """Each query once, one after the other."""
    connection = Connection(url)
    await prepare(connection, "modern", "tools/list", "")
    connection.headers = connection.headers.replace("tools/call", "tools/list")
    latencies: list[float] = []
    returned = degraded = 0
    before = cpu_seconds(pid)
    for number, text in enumerate(texts):
        params = {"_meta": modern_meta(**{"dev.armory/query": text})}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": params}
        begun = time.perf_counter()
        status, _, content = await connection.post(json.dumps(message).encode())
        latencies.append(1000 * (time.perf_counter() - begun))
        if status != 200:
            raise RuntimeError(content[:300])
        selection = json.loads(content)["result"]["_meta"]["dev.armory/selection"]
        returned += selection["returned"]
        degraded += bool(selection["degraded"])
    cpu_ms = 1000 * (cpu_seconds(pid) - before) / len(texts)
    connection.writer.close()
    latencies.sort()
    return {
        "p50_ms": latencies[len(latencies) // 2],
        "p95_ms": latencies[int(len(latencies) * 0.95)],
        "cpu_ms": cpu_ms,
        "returned_mean": returned / len(texts),
        "degraded": degraded,
    }


def measure(
    data: Path, count: int, index: str, texts: list[str], prepared: Path | None, real: int
) -> dict[str, Any]:
    """One catalog size: first start, restart, queries."""
    port, upstream = free_port(), free_port()
    known: dict[str, Any] = {}
    if prepared is not None and count > EMBEDDED_AT_START:
        known = asyncio.run(vectors.prepare(catalog(data, count), prepared, real))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "armory.yaml"
        cache = str(prepared.resolve()) if known and prepared is not None else f"{name}/cache"
        values = {"port": port, "upstream": upstream, "index": index, "dir": name}
        values |= {"name": SERVER, "cache": cache, "token": READINESS}
        file.write_text(CONFIG.format(**values))
        argv = [sys.executable, "-m", "benchmarks.load.lists", str(data), "--serve", str(count)]
        serve = [sys.executable, "-m", "armory.cli.main", "serve", "--config", str(file)]
        base = f"http://127.0.0.1:{port}"
        with process([*argv, "--port", str(upstream)], 1, upstream, folder / "upstream.log"):
            first = None  # with prepared vectors a first start is no other than a later one
            if not known:
                with process(serve, 0, port, folder / "first.log"):
                    first = await_ready(base, 3600)
            with process(serve, 0, port, folder / "again.log") as pid:
                again = await_ready(base, 3600)
                asyncio.run(ask(f"{base}/mcp", texts[:10], pid))
                figures = asyncio.run(ask(f"{base}/mcp", texts[10:], pid))
                memory = rss_mb(pid)
    return {
        "tools": count,
        "index": index,
        "vectors": known or "made at the first start",
        "first_start_s": first,
        "restart_s": again,
        **figures,
        "rss_mb": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the public tool-retrieval sets")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/load/lists.json"))
    parser.add_argument("--sizes", default="100,1000,10000,100000")
    parser.add_argument("--index", default="exact")
    parser.add_argument("--vectors", type=Path, default=None, help="folder of prepared vectors")
    parser.add_argument("--real", type=int, default=10_000, help="of them made by the model")
    parser.add_argument("--queries", type=int, default=210)
    parser.add_argument("--serve", type=int, default=None, help="serve so many tools (internal)")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    end_on_sigterm()
    if args.serve is not None:
        app = upstream_app(catalog(args.data, args.serve))
        web.run_app(app, host="127.0.0.1", port=args.port, print=None)
        return
    if args.vectors is not None:
        args.vectors.mkdir(parents=True, exist_ok=True)
    texts = queries(args.data, args.queries)
    rows: list[dict[str, Any]] = []
    for size in map(int, args.sizes.split(",")):
        rows.append(measure(args.data, size, args.index, texts, args.vectors, args.real))
        print(json.dumps(rows[-1]), file=sys.stderr)
        result = {
            "versions": versions(),
            "machine": machine(),
            "queries": len(texts) - 10,
            "rows": rows,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
