"""How each target of the load benchmark is started, and where it then answers.

Owns: command lines. A target is something in front of the one upstream; `direct` is the upstream
itself. Peers live in virtual environments of their own (`--peers DIR` holds `fastmcp/`,
`contextforge/` ...), because their dependencies conflict.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """One thing to measure.

    Attributes:
        name: as in the table.
        argv: command, `{port}`, `{upstream}` (base URL) and `{dir}` (scratch) filled in; empty:
            the upstream itself.
        path: of the MCP endpoint, `{endpoint}` being `mcp` or `sse-mcp`.
        tool: name that the upstream's `echo` has there.
        eras: eras that it serves.
        files: scratch files to write first, by name.
        stdio: whether its upstream is a child process instead of the HTTP server.
    """

    name: str
    argv: tuple[str, ...]
    path: str = "/mcp"
    tool: str = "echo"
    eras: tuple[str, ...] = ("modern", "legacy")
    files: tuple[tuple[str, str], ...] = ()
    stdio: bool = False


_HERE = str(Path(__file__).resolve().parents[2])

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

_ARMORY_STDIO_YAML = """\
server: {{port: {port}}}
upstreams:
  bench:
    command: {python}
    args: [-m, benchmarks.load.upstream, --stdio]
    env: {{PYTHONPATH: {here}}}
    max_concurrency: 512
    isolation: shared
observability: {{log_level: warning, query_log: {{enabled: false}}}}
storage: {{url: "sqlite:///{dir}/armory.db", cache_dir: "{dir}/cache"}}
"""

_FASTMCP = """\
from fastmcp.server import create_proxy
from fastmcp import Client

create_proxy("{upstream}/{endpoint}", name="bench").run(
    transport="http", host="127.0.0.1", port={port}, show_banner=False
)
"""


def targets(peers: Path | None) -> list[Target]:
    """Every target that can be started here."""
    found = [
        Target("direct", ()),
        Target(
            "bare aiohttp proxy",
            (sys.executable, "-m", "benchmarks.load.bare_proxy", "{upstream}", "--port", "{port}"),
            path="/{endpoint}",
        ),
        Target(
            "armory",
            (sys.executable, "-m", "armory.cli.main", "serve", "--config", "{dir}/armory.yaml"),
            tool="bench__echo",
            files=(("armory.yaml", _ARMORY_YAML),),
        ),
        Target(
            "armory, stdio upstream",
            (sys.executable, "-m", "armory.cli.main", "serve", "--config", "{dir}/armory.yaml"),
            tool="bench__echo",
            files=(("armory.yaml", _ARMORY_STDIO_YAML),),
            stdio=True,
        ),
    ]
    if peers is not None and (peers / "fastmcp/bin/python").exists():
        found.append(
            Target(
                "fastmcp proxy",
                (str(peers / "fastmcp/bin/python"), "{dir}/proxy.py"),
                files=(("proxy.py", _FASTMCP),),
            )
        )
    return found


def here() -> str:
    """The checkout's root, for `PYTHONPATH` of child processes."""
    return _HERE
