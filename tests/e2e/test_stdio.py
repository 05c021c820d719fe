"""`armory serve --stdio`: the gateway for clients that only spawn commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client, StdioServerParameters, stdio_client

pytestmark = pytest.mark.timeout(400)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_that_spawns_the_gateway_lists_and_calls(
    mode: str, environ: dict[str, str], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
    gateway = StdioServerParameters(
        command=sys.executable,
        args=["-m", "armory.cli.main", "serve", "--stdio"],
        env=environ,
        cwd=tmp_path,
    )
    async with Client(stdio_client(gateway), mode=mode) as client:
        meta: Any = {"dev.armory/query": "what time is it in Tokyo?"}
        names = [tool.name for tool in (await client.list_tools(meta=meta)).tools]
        assert "time__get_current_time" in names
        assert not [name for name in names if name.startswith("notes__")]
        answer = await client.call_tool("time__get_current_time", {"timezone": "UTC"})
        assert answer.structured_content is not None
        assert answer.structured_content["timezone"] == "UTC"
