"""The everything server offers tools by what a client declares: here as in a direct connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest

from armory.testing.clients.talker import Talker
from armory.testing.processes import GatewayProcess
from armory.testing.waiting import eventually
from tests.protocol.real.conftest import npm_server

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(180)]
Era = Literal["modern", "legacy"]
ERAS: tuple[Era, ...] = ("modern", "legacy")
BOUND_S = 60
DECLARED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "roots": {"roots": {}},
    "sampling": {"sampling": {}},
    "forms": {"elicitation": {}},
    "addresses": {"elicitation": {"url": {}}},
    "all": {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}},
}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=BOUND_S)) as session:
        yield session


async def directly(server: dict[str, Any], capabilities: dict[str, Any]) -> list[Any]:
    """The tools that it lists for a client of its own."""
    process = await asyncio.create_subprocess_exec(
        server["command"], *server["args"],
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, limit=1 << 24,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "0"},
    }
    messages = (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    )
    answer: dict[str, Any] = {}
    try:
        async with asyncio.timeout(BOUND_S):
            for message in messages:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
                while "id" in message and ("method" in answer or answer.get("id") != message["id"]):
                    answer = json.loads(await process.stdout.readline())
            return answer["result"]["tools"]
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("declared", list(DECLARED))
async def test_each_client_is_offered_what_it_would_be_directly(
    gateway: GatewayProcess, node: str, node_dir: Path, http: aiohttp.ClientSession, declared: str
) -> None:
    capabilities = DECLARED[declared]
    wanted = await directly(npm_server(node, node_dir, "server-everything", "stdio"), capabilities)
    for era in ERAS:
        talker = Talker(http, f"{gateway.url}/mcp/everything", era, capabilities)

        async def offered_so(talker: Talker = talker) -> bool:
            """The first listing waits for it only so long."""
            return (await talker.tell("tools/list")).message["result"]["tools"] == wanted

        await eventually(offered_so, BOUND_S)
        among = await Talker(http, f"{gateway.url}/mcp", era, capabilities).tell("tools/list")
        offered = [tool["name"] for tool in among.message["result"]["tools"]]
        ours = [f"everything__{tool['name']}" for tool in wanted]
        assert [name for name in offered if name.startswith("everything__")] == ours


async def test_what_it_is_not_offered_it_cannot_call(
    gateway: GatewayProcess, http: aiohttp.ClientSession
) -> None:
    for era in ERAS:
        talker = Talker(http, f"{gateway.url}/mcp", era, {})
        await talker.tell("tools/list")
        call = {"name": "everything__trigger-sampling-request", "arguments": {"prompt": "hello"}}
        told = await talker.tell("tools/call", call)
        assert told.message["error"]["code"] == -32602
        assert told.asked == []
