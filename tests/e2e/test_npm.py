"""npm's reference servers behind the gateway, and the Inspector's command line in front of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

pytestmark = [pytest.mark.node, pytest.mark.timeout(400)]


@pytest.fixture
def npm_upstreams(node_dir: Path, node: str, tmp_path: Path) -> dict[str, Any]:
    """server-everything, -memory, and -filesystem of today and of March 2025."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "hello.txt").write_text("hello from a file")

    def server(package: str, *arguments: str, **env: str) -> dict[str, Any]:
        script = str(node_dir / package / "dist" / "index.js")
        return {"command": node, "args": [script, *arguments], "env": env}

    scope = "@modelcontextprotocol"
    return {
        "everything": server(f"{scope}/server-everything", "stdio"),
        "files": server(f"{scope}/server-filesystem", str(files)),
        "old-files": server("server-filesystem-2025", str(files)),
        "memory": server(f"{scope}/server-memory", MEMORY_FILE_PATH=str(tmp_path / "memory.json")),
    }


@pytest.mark.anyio
async def test_npm_servers_are_listed_called_and_read(
    serve: Callable[..., Any],
    demo_upstreams: dict[str, Any],
    npm_upstreams: dict[str, Any],
    tmp_path: Path,
) -> None:
    upstreams = {**npm_upstreams, "time": demo_upstreams["time"]}
    served = serve({"upstreams": upstreams, "tool_rag": {"without_query": "all"}}).searchable()
    for mode in ("legacy", "auto"):
        async with Client(served.url, mode=mode) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            for server in upstreams:
                assert [name for name in listed if name.startswith(f"{server}__")], server
            echo = await client.call_tool("everything__echo", {"message": "hello"})
            assert "hello" in echo.content[0].text  # pyright: ignore
            for server in ("files", "old-files"):
                path = {"path": str(tmp_path / "files" / "hello.txt")}
                read = await client.call_tool(f"{server}__read_file", path)
                assert "hello from a file" in read.content[0].text  # pyright: ignore
            entity = {"name": mode, "entityType": "era", "observations": ["seen"]}
            await client.call_tool("memory__create_entities", {"entities": [entity]})
            graph = await client.call_tool("memory__read_graph", {})
            assert mode in graph.content[0].text  # pyright: ignore
            meta: Any = {"dev.armory/query": "get the current time in Berlin"}
            found = await client.list_tools(meta=meta)
            wanted = [tool.name for tool in found.tools]
            assert "time__get_current_time" in wanted, found.meta
            assert len(wanted) < 10


@pytest.mark.anyio
async def test_results_come_through_as_they_are(
    serve: Callable[..., Any], npm_upstreams: dict[str, Any]
) -> None:
    everything = npm_upstreams["everything"]
    served = serve({"upstreams": {"everything": everything}}).ready()
    direct = StdioServerParameters(command=everything["command"], args=everything["args"])
    async with (
        Client(stdio_client(direct), mode="legacy") as straight,
        Client(served.url, mode="legacy") as through,
    ):
        names = {tool.name for tool in (await straight.list_tools()).tools}
        for tool, arguments in (
            ("get-tiny-image", {}),
            ("get-sum", {"a": 2, "b": 3}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("get-structured-content", {"location": "Chicago"}),
        ):
            assert tool in names
            want = (await straight.call_tool(tool, arguments)).model_dump()
            got = (await through.call_tool(f"everything__{tool}", arguments)).model_dump()
            assert got == want, tool


def test_the_inspector_s_command_line_lists_and_calls(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], node_dir: Path, node: str
) -> None:
    served = serve({"upstreams": demo_upstreams}).searchable()
    inspector = node_dir / "@modelcontextprotocol" / "inspector"
    entry = json.loads((inspector / "package.json").read_text())["bin"]["mcp-inspector"]

    def inspect(*arguments: str) -> Any:
        done = subprocess.run(
            [node, str(inspector / entry), "--cli", served.url, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    listed = [tool["name"] for tool in inspect("--method", "tools/list")["tools"]]
    assert len([name for name in listed if name.startswith(("time__", "notes__"))]) == 14
    called = inspect(
        *("--method", "tools/call", "--tool-name", "time__get_current_time"),
        *("--tool-arg", "timezone=UTC"),
    )
    assert called["structuredContent"]["timezone"] == "UTC"
