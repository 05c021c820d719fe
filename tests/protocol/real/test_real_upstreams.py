"""Servers of six revisions behind one gateway, listed and called by three kinds of client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from armory.testing.processes import GatewayProcess

pytestmark = [pytest.mark.node, pytest.mark.timeout(180)]

REVISIONS = {
    "sqlite": "2024-11-05",
    "time-march": "2025-03-26",
    "time-june": "2025-06-18",
    "everything": "2025-11-25",
    "files": "2025-11-25",
    "memory": "2025-11-25",
    "time-now": "2026-07-28",
    "git": "2026-07-28",
}
#: One call a server, and what its text must hold.
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("sqlite__list_tables", {}, "["),
    ("time-march__get_current_time", {"timezone": "UTC"}, '"timezone": "UTC"'),
    ("time-june__get_current_time", {"timezone": "UTC"}, '"timezone": "UTC"'),
    ("everything__echo", {"message": "hello there"}, "hello there"),
    ("everything__get-sum", {"a": 2, "b": 40}, "42"),
    ("files__list_allowed_directories", {}, "Allowed directories"),
    ("memory__read_graph", {}, "entities"),
    ("time-now__get_current_time", {"timezone": "UTC"}, '"timezone": "UTC"'),
]
SERVERS = {name.partition("__")[0] for name, _, _ in CALLS} | {"git"}


def test_each_upstream_speaks_its_own_revision(gateway: GatewayProcess) -> None:
    connected: dict[str, str] = {}
    for line in gateway.errors(1 << 24).splitlines():
        if '"upstream_ready"' in line:
            said = json.loads(line)
            connected.setdefault(said["upstream"], said["revision"])
    assert connected == REVISIONS


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_python_client(gateway: GatewayProcess, mode: str) -> None:
    async with Client(f"{gateway.url}/mcp", mode=mode) as client:
        listed = await client.list_tools()
        names = {tool.name for tool in listed.tools}
        assert {name.partition("__")[0] for name in names} == SERVERS
        for name, arguments, wanted in CALLS:
            assert name in names
            result = await client.call_tool(name, arguments)
            assert not result.is_error, (name, result)
            assert wanted in result.content[0].model_dump()["text"], name
        prompts = await client.list_prompts()
        assert any(prompt.name.startswith("everything__") for prompt in prompts.prompts)
        resources = await client.list_resources()
        assert any(str(r.uri).startswith("everything+") for r in resources.resources)
        first = next(r for r in resources.resources if str(r.uri).startswith("everything+"))
        read = await client.read_resource(str(first.uri))
        assert str(read.contents[0].uri) == str(first.uri)


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_typescript_client(
    gateway: GatewayProcess, node: str, node_dir: Path, mode: str
) -> None:
    script = Path(__file__).with_name("client.mjs")
    calls = json.dumps([[name, arguments] for name, arguments, _ in CALLS])
    done = subprocess.run(
        [node, str(script), str(node_dir), f"{gateway.url}/mcp", mode, calls],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    told = json.loads(done.stdout)
    assert {name.partition("__")[0] for name in told["tools"]} == SERVERS
    for (name, _, wanted), result in zip(CALLS, told["results"], strict=True):
        assert wanted in result["content"][0]["text"], name


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector(
    gateway: GatewayProcess, node: str, node_dir: Path, tmp_path: Path, era: str
) -> None:
    server = {"type": "streamable-http", "url": f"{gateway.url}/mcp", "protocolEra": era}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"armory": server}}), encoding="utf-8")
    program = node_dir / "node_modules" / ".bin" / "mcp-inspector"
    command = [node, str(program), "--cli", "--config", str(config), "--server", "armory"]

    def inspect(*more: str) -> dict[str, Any]:
        done = subprocess.run(
            [*command, *more, "--format", "json"],
            capture_output=True, text=True, timeout=90, check=False,
            env={"PATH": str(Path(node).parent), "HOME": str(tmp_path),
                 "MCP_INSPECTOR_SECRET_STORE": "memory"},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
        told = json.loads(done.stdout)
        return told.get("result", told)

    listed = inspect("--method", "tools/list")
    assert {tool["name"].partition("__")[0] for tool in listed["tools"]} == SERVERS
    called = inspect(
        "--method", "tools/call", "--tool-name", "everything__echo", "--tool-arg", "message=hi"
    )
    assert "hi" in called["content"][0]["text"]
