"""`armory call` shows whatever a server answers."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from armory.cli.main import cli
from armory.config import load_file
from armory.runtime import open_runtime
from armory.testing.upstreams.exchange import RpcFailure
from armory.testing.upstreams.http import HttpUpstream

pytestmark = pytest.mark.anyio


async def test_an_answer_that_is_structured_alone_is_shown(tmp_path: Path) -> None:
    async def structured(_script: Any, _request: Any) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"city": "Győr", "degrees": [1, 2]}}

    file = tmp_path / "armory.yaml"
    async with HttpUpstream() as upstream:
        upstream.script.behaviour["who"] = structured
        config = {"upstreams": {"web": {"url": upstream.url}}, "tool_rag": {"enabled": False}}
        file.write_text(yaml.safe_dump(config))
        found = await asyncio.to_thread(  # a command has an event loop of its own
            CliRunner().invoke,
            cli,
            ["call", "web__who", "--config", str(file)],
            env={"ARMORY_HOME": str(tmp_path / "home")},
        )
    assert found.exit_code == 0
    assert "Győr" in found.stdout
    assert json.loads(found.stdout) == {"city": "Győr", "degrees": [1, 2]}


@pytest.mark.parametrize("running", [False, True], ids=["opened here", "at a URL"])
async def test_a_name_that_is_listed_is_not_suggested_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))

    async def forgotten(_script: Any, _request: Any) -> dict[str, Any]:
        raise RpcFailure(-32602, "it went last week", {"code": "unknown"})

    file = tmp_path / "armory.yaml"
    async with HttpUpstream() as upstream:
        upstream.script.behaviour["who"] = forgotten
        config = {"upstreams": {"web": {"url": upstream.url}}, "tool_rag": {"enabled": False}}
        file.write_text(yaml.safe_dump(config))
        async with AsyncExitStack() as stack:
            at = ["--config", str(file)]
            if running:
                runtime = await stack.enter_async_context(
                    open_runtime(load_file(file), address=("127.0.0.1", 0))
                )
                await runtime.ready()
                assert runtime.listening is not None
                at = ["--url", runtime.listening.url]
            command = ["call", "web__who", *at]
            found = await asyncio.to_thread(CliRunner().invoke, cli, command)
    said = str(found.exception)
    assert said == "'web__who' is listed, but its server does not know it: it went last week"
