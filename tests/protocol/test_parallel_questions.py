"""Calls of a client of 2026-07-28 that sample at once, before a stdio server with a handshake.

Over stdio nothing says which call a question belongs to, and the client's requests do not say which
client they come from: the whole way from the SDK's client to the process is run.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent

from armory.config import load_file
from armory.runtime import open_runtime

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
PATHS = ":".join(path for path in sys.path if path)
CALLS = 6


def config(isolation: str) -> dict[str, Any]:
    args = ["-m", "armory.testing.upstreams.stdio", "--era", "legacy"]
    env = {"PYTHONPATH": PATHS}
    up = {"command": sys.executable, "args": args, "env": env, "isolation": isolation}
    return {"tool_rag": {"enabled": False}, "upstreams": {"up": up}}


@pytest.mark.parametrize("isolation", ["principal", "session", "shared"])
async def test_each_call_is_answered_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    asked = 0

    async def sample(context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        nonlocal asked
        del context, params
        asked += 1
        said = TextContent(type="text", text=f"answer {asked}")
        return CreateMessageResult(role="assistant", content=said, model="m")

    file = tmp_path / "armory.yaml"
    file.write_text(yaml.safe_dump(config(isolation)))
    loaded = load_file(file)
    async with asyncio.timeout(30), open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
        await runtime.searchable()
        assert runtime.listening is not None
        url = runtime.listening.url + "/mcp"
        async with Client(url, mode="2026-07-28", sampling_callback=sample) as client:
            called = await asyncio.gather(
                *(client.call_tool("up__sample", {}) for _ in range(CALLS))
            )
        assert runtime.pool.status()["up"].sessions.shared == 1
    answers = [(one.structured_content or {}).get("result", one) for one in called]
    texts = {answer["content"]["text"] for answer in answers}
    assert texts == {f"answer {number}" for number in range(1, CALLS + 1)}
