"""How each target of the load benchmark is started, and where it then answers.

Owns: command lines, configuration files and what of the grid each target can do. A target is
something in front of the one upstream; `direct` is the upstream itself. Peers live in folders of
their own (`peers.py DIR` makes them), because their dependencies conflict.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

JSON, SSE, LEGACY, STDIO = "modern JSON", "modern SSE", "legacy session", "stdio upstream"
LABELS = (JSON, SSE, LEGACY, STDIO)
FLOOR = "bare aiohttp proxy"
_NO_MODERN = "does not speak 2026-07-28"


@dataclass(frozen=True)
class Target:
    """One thing to measure.

    Attributes:
        name: as in the table.
        argv: command, `{port}`, `{upstream}` (base URL), `{upstream_address}`, `{endpoint}` and
            `{dir}` (scratch) filled in; empty: the upstream itself.
        stdio_argv: the command where its upstream is a process; empty: as `argv`.
        path: of the MCP endpoint, `{endpoint}` being `mcp` or `sse-mcp`.
        tool: name that the upstream's `echo` has there.
        files: scratch files to write first, by name.
        stdio_files: likewise where its upstream is a process; empty: it takes none.
        env: added to its environment.
        cannot: why not, by label of what it cannot do.
        era: of its clients where it has no choice; None: both.
        front: `sse` where clients must speak HTTP+SSE.
        settle: called with (port, upstream's URL) once the port is open.
        slow: whether fewer rounds must do.
        light: whether 1 MiB results and 256 clients are left out.
    """

    name: str
    argv: tuple[str, ...] = ()
    stdio_argv: tuple[str, ...] = ()
    path: str = "/mcp"
    tool: str = "echo"
    files: tuple[tuple[str, str], ...] = ()
    stdio_files: tuple[tuple[str, str], ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    era: str | None = None
    front: str = "http"
    settle: Callable[[int, str], None] | None = None
    slow: bool = False
    light: bool = False


_ARMORY_YAML = """\
server: {{port: {port}}}
upstreams:
  bench:
    url: {upstream}/{endpoint}
    protocol: "{protocol}"
    max_concurrency: 512
observability: {{log_level: warning, query_log: {{enabled: false}}}}
storage: {{url: "sqlite:///{dir}/armory.db", cache_dir: "{dir}/cache"}}
"""

# The process behind a gateway is pinned to the other core, as the HTTP upstream is.
_STDIO = ("taskset", "-c", "1", "{python}", "-m", "benchmarks.load.upstream", "--stdio")

_ARMORY_STDIO_YAML = """\
server: {{port: {port}}}
upstreams:
  bench:
    command: taskset
    args: [-c, "1", {python}, -m, benchmarks.load.upstream, --stdio]
    env: {{PYTHONPATH: {here}}}
    max_concurrency: 512
    isolation: shared
observability: {{log_level: warning, query_log: {{enabled: false}}}}
storage: {{url: "sqlite:///{dir}/armory.db", cache_dir: "{dir}/cache"}}
"""

_ASYNCIO = ("{port}}}", "{port}, event_loop: asyncio}}")

_FASTMCP = """\
from fastmcp.server import create_proxy

create_proxy("{upstream}/{endpoint}", name="bench").run(
    transport="http", host="127.0.0.1", port={port}, show_banner=False
)
"""

_FASTMCP_STDIO_TRANSPORT = """\
from fastmcp.client.transports import StdioTransport

transport = StdioTransport(
    "taskset", ["-c", "1", "{python}", "-m", "benchmarks.load.upstream", "--stdio"],
    env={{"PYTHONPATH": "{here}"}},
)
"""

_FASTMCP_STDIO = (
    _FASTMCP_STDIO_TRANSPORT
    + """\
from fastmcp.server import create_proxy

create_proxy(transport, name="bench").run(
    transport="http", host="127.0.0.1", port={port}, show_banner=False
)
"""
)

_FASTMCP_ONE = """\
import asyncio

from fastmcp import Client
from fastmcp.server import create_proxy


async def main() -> None:
    async with Client({upstream_of}) as client:
        await create_proxy(client, name="bench").run_async(
            transport="http", host="127.0.0.1", port={port}, show_banner=False
        )


asyncio.run(main())
"""


def _fastmcp_one(upstream: str) -> str:
    return _FASTMCP_ONE.replace("{upstream_of}", upstream)


_HUB = '{{"mcpServers": {{"bench": {{"url": "{upstream}/{endpoint}"}}}}}}'
_HUB_STDIO = (
    '{{"mcpServers": {{"bench": {{"command": "taskset", "args": ["-c", "1", "{python}", "-m", '
    '"benchmarks.load.upstream", "--stdio"], "env": {{"PYTHONPATH": "{here}"}}}}}}}}'
)

_FORGE_PASSWORD = "Bench-0nly-Passw0rd!"
# Its fastest mode: sessions kept, limiter, plugins and interface off, memory as its cache.
_FORGE_ENV = {
    "JWT_SECRET_KEY": "Zk3vQ9pL7xT2mB8nR5wY1cD6fH4jK0sA-bench",
    "AUTH_ENCRYPTION_SECRET": "pX7dN2vR9kQ4mT6wL1zB8cF3hJ5yS0gA-bench",
    "PLATFORM_ADMIN_EMAIL": "admin@example.com",
    "PLATFORM_ADMIN_PASSWORD": _FORGE_PASSWORD,
    "BASIC_AUTH_PASSWORD": _FORGE_PASSWORD,
    "DATABASE_URL": "sqlite:///{dir}/forge.db",
    "MCP_REQUIRE_AUTH": "false",
    "USE_STATEFUL_SESSIONS": "true",
    "RATE_LIMITING_ENABLED": "false",
    "TOOL_RATE_LIMIT": "1000000",
    "SSRF_ALLOW_LOCALHOST": "true",
    "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
    "CACHE_TYPE": "memory",
    "PLUGINS_ENABLED": "false",
    "LOG_LEVEL": "ERROR",
}


def _ask(url: str, body: object = None, token: str | None = None) -> object:
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
        return json.load(answer)


def _until(url: str, done: Callable[[object], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if done(_ask(url)):
                return
        except (OSError, ValueError, urllib.error.URLError):
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{url} was not as expected after {timeout_s} s")


def _register_with_forge(port: int, upstream: str) -> None:
    """Log in as its administrator and register the upstream."""
    base = f"http://127.0.0.1:{port}"
    login = {"email": _FORGE_ENV["PLATFORM_ADMIN_EMAIL"], "password": _FORGE_PASSWORD}
    found = _ask(f"{base}/auth/login", login)
    assert isinstance(found, dict)
    gateway = {
        "name": "bench",
        "url": upstream,
        "transport": "STREAMABLEHTTP",
        "visibility": "public",
    }
    _ask(f"{base}/gateways", gateway, str(found["access_token"]))


def _hub_connected(port: int, _: str) -> None:
    _until(f"http://127.0.0.1:{port}/api/servers", lambda found: '"connected"' in json.dumps(found))


def targets(peers: Path | None) -> list[Target]:
    """Every target that can be started here.

    Args:
        peers: the folder that `peers.py` made; None: no peers.
    """
    python = sys.executable
    serve = (python, "-m", "armory.cli.main", "serve", "--config", "{dir}/armory.yaml")
    found = [
        Target("direct", cannot={STDIO: "its clients speak HTTP"}),
        Target(
            FLOOR,
            (python, "-m", "benchmarks.load.bare_proxy", "{upstream}", "--port", "{port}"),
            (python, "-m", "benchmarks.load.bare_bridge", "--port", "{port}", "--", *_STDIO),
            path="/{endpoint}",
        ),
        Target(
            "armory",
            serve,
            tool="bench__echo",
            files=(("armory.yaml", _ARMORY_YAML),),
            stdio_files=(("armory.yaml", _ARMORY_STDIO_YAML),),
        ),
        Target(
            "armory on asyncio",
            serve,
            tool="bench__echo",
            files=(("armory.yaml", _ARMORY_YAML.replace(*_ASYNCIO)),),
            stdio_files=(("armory.yaml", _ARMORY_STDIO_YAML.replace(*_ASYNCIO)),),
        ),
    ]
    return found if peers is None else [*found, *_peers(peers)]


def _peers(folder: Path) -> list[Target]:
    found: list[Target] = []
    fastmcp = folder / "fastmcp/bin/python"
    if fastmcp.exists():
        one_stdio = _FASTMCP_STDIO_TRANSPORT + _fastmcp_one("transport")
        command = (str(fastmcp), "{dir}/proxy.py")
        found += [
            Target(
                "fastmcp proxy, one client",
                command,
                files=(("proxy.py", _fastmcp_one('"{upstream}/{endpoint}"')),),
                stdio_files=(("proxy.py", one_stdio),),
                slow=True,
            ),
            Target(
                "fastmcp proxy, default",
                command,
                files=(("proxy.py", _FASTMCP),),
                stdio_files=(("proxy.py", _FASTMCP_STDIO),),
                slow=True,
                light=True,
            ),
        ]
    forge = folder / "contextforge/bin/mcpgateway"
    if forge.exists():
        found.append(
            Target(
                "contextforge, stateful",
                (str(forge), "--host", "127.0.0.1", "--port", "{port}"),
                tool="bench-echo",
                env=_FORGE_ENV,
                cannot={
                    JSON: _NO_MODERN,
                    SSE: _NO_MODERN,
                    STDIO: "takes processes through a separate program only",
                },
                settle=_register_with_forge,
                slow=True,
            )
        )
    hub = folder / "mcp-hub/node_modules/mcp-hub/dist/cli.js"
    if hub.exists():
        found.append(
            Target(
                "mcp-hub",
                ("node", str(hub), "--port", "{port}", "--config", "{dir}/hub.json"),
                tool="bench__echo",
                files=(("hub.json", _HUB),),
                stdio_files=(("hub.json", _HUB_STDIO),),
                cannot={JSON: _NO_MODERN, SSE: _NO_MODERN},
                era="legacy",
                front="sse",
                settle=_hub_connected,
                slow=True,
            )
        )
    return found
