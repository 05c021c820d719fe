"""What one gateway takes: memory and processor at 100 to 10,000 tools, by start, query and call.

Owns: the readings. Processor time is the process's own, so that a busy machine does not distort it;
nothing here measures how long something takes.

    python -m benchmarks.sizing.run DATA --images FOLDER

FOLDER is where `python -m tests.image.rootfs --folder FOLDER` has made the images.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.load.catalog import SERVER, catalog, queries
from benchmarks.load.driver import Connection, cpu_seconds, prepare
from benchmarks.load.lists import READINESS, ask, await_ready, upstream_app
from benchmarks.load.processes import end_on_sigterm, free_port, machine, process, rss_mb, versions

SESSIONS = 1_000
CALLS = 3_000
AT_ONCE = 16
CONFIG = """\
server: {{port: {port}}}
upstreams: {{{name}: {{url: "http://127.0.0.1:{upstream}/mcp", call_timeout_s: 600}}}}
accounts: {{enabled: true}}
security:
  allow_anonymous: true
  tokens: {{readiness: {{token: {token}, scopes: [admin]}}}}
observability: {{log_level: error}}
"""


def peak_mb(pid: int) -> float:
    """The most memory that was resident so far."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


async def calls(url: str, tool: str, pid: int) -> float:
    """Processor milliseconds of one call."""
    connections = [Connection(url) for _ in range(AT_ONCE)]
    for one in connections:
        await prepare(one, "modern", "tools/call", tool)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    params = {"name": tool, "arguments": {}, "_meta": meta}
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    ).encode()

    async def some(one: Connection, number: int) -> None:
        for _ in range(number):
            status, _, content = await one.post(body)
            if status != 200 or b'"ok"' not in content:
                raise RuntimeError(content[:300])

    await asyncio.gather(*(some(one, 20) for one in connections))
    before = cpu_seconds(pid)
    await asyncio.gather(*(some(one, CALLS // AT_ONCE) for one in connections))
    spent = cpu_seconds(pid) - before
    for one in connections:
        one.writer.close()
    return 1_000 * spent / (CALLS // AT_ONCE * AT_ONCE)


async def sessions(url: str, pid: int) -> float:
    """Memory of one open session of an earlier client, in KiB."""
    before = rss_mb(pid)
    for _ in range(SESSIONS):
        one = Connection(url)
        await prepare(one, "legacy", "tools/call", "")
        one.writer.close()
    return (rss_mb(pid) - before) * 1_024 / SESSIONS


def stdio_server_mb() -> float:
    """Memory of one small MCP server in Python, as a stdio upstream is."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with subprocess.Popen(
        [sys.executable, "-m", "armory.demo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(hello).encode() + b"\n")
        child.stdin.flush()
        child.stdout.readline()
        found = rss_mb(child.pid)
        child.kill()
    return found


def image_mib(folder: Path) -> dict[str, int]:
    """Unpacked size of the images, and of the base that stands in for Python's official one."""
    (base,) = (folder / "bases").glob("python-*")
    places = {"base": base, **{name: folder / "stages" / name for name in ("armory", "full")}}
    found: dict[str, int] = {}
    for name, place in places.items():
        said = subprocess.run(["du", "-sm", str(place)], capture_output=True, text=True, check=True)
        found[name] = int(said.stdout.split()[0])
    return found


def measure(data: Path, count: int, texts: list[str]) -> dict[str, Any]:
    """One catalog size."""
    port, upstream = free_port(), free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "armory.yaml"
        values = {"port": port, "upstream": upstream, "name": SERVER, "token": READINESS}
        file.write_text(CONFIG.format(**values))
        offers = [sys.executable, "-m", "benchmarks.sizing.run", str(data)]
        offers += ["--serve", str(count)]
        serve = [sys.executable, "-m", "armory.cli.main", "serve", "--config", str(file)]
        base = f"http://127.0.0.1:{port}"
        found: dict[str, Any] = {"tools": count}
        with process([*offers, "--port", str(upstream)], 1, upstream, folder / "upstream.log"):
            for start in ("first", "again"):
                with process(serve, 0, port, folder / f"{start}.log", timeout_s=120) as pid:
                    await_ready(base, 3_600)
                    found[f"{start}_start_cpu_s"] = cpu_seconds(pid)
                    found[f"{start}_start_peak_mb"] = peak_mb(pid)
                    if start == "first":
                        continue
                    found["ready_mb"] = rss_mb(pid)
                    tool = f"{SERVER}__{catalog(data, 1)[0]['name']}"
                    found["call_cpu_ms"] = asyncio.run(calls(f"{base}/mcp", tool, pid))
                    found["query_cpu_ms"] = asyncio.run(ask(f"{base}/mcp", texts, pid))["cpu_ms"]
                    found["busy_mb"] = rss_mb(pid)
                    found["session_kib"] = asyncio.run(sessions(f"{base}/mcp", pid))
                    found["peak_mb"] = peak_mb(pid)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the public tool-retrieval sets")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/sizing/results.json"))
    parser.add_argument("--images", type=Path, help="folder of made images")
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--serve", type=int, default=None, help="serve so many tools (internal)")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    end_on_sigterm()
    if args.serve is not None:
        from aiohttp import web

        app = upstream_app(catalog(args.data, args.serve))
        web.run_app(app, host="127.0.0.1", port=args.port, print=None)
        return
    texts = queries(args.data, args.queries)
    result: dict[str, Any] = {
        "versions": versions(),
        "machine": machine(),
        "stdio_server_mb": stdio_server_mb(),
        "rows": [],
    }
    if args.images is not None:
        result["image_mib"] = image_mib(args.images)
    for size in map(int, args.sizes.split(",")):
        result["rows"].append(measure(args.data, size, texts))
        print(json.dumps(result["rows"][-1]), file=sys.stderr)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
