"""Clients that vanish, roots, log levels and lists, over real processes on both sides."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.processes import GatewayProcess
from tests.protocol.figures import figure, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ELICIT = {"elicitation": {"form": {}}}
NEEDS = {"sample": "sampling", "roots": "roots"}
PATHS = os.pathsep.join(filter(None, sys.path))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """In front of scripted servers over stdio: `up` in the handshake era, `new` in the newer, and
    `both`, which lists by what is declared in a handshake.
    """

    def upstream(era: str, *more: str) -> dict[str, Any]:
        args = ["-m", "armory.testing.upstreams.stdio", "--era", era, *more]
        return {"command": sys.executable, "args": args, "env": {"PYTHONPATH": PATHS}}

    config = {
        "server": {"limits": {"parked_timeout_s": 0.5}},
        "upstreams": {
            "up": upstream("legacy"),
            "new": upstream("modern"),
            "both": upstream("both", "--needs", json.dumps(NEEDS)),
        },
        "tool_rag": {"enabled": False},
    }
    with GatewayProcess(config, tmp_path_factory.mktemp("gateway")) as running:
        assert isinstance(running, GatewayProcess)
        yield running


async def call(
    gateway: GatewayProcess, http: aiohttp.ClientSession, tool: str, **more: Any
) -> dict[str, Any]:
    """The answer to one modern call."""
    params = {"name": f"up__{tool}", "arguments": {}, **more}
    body = modern_body(1, "tools/call", params, capabilities=ELICIT)
    async with http.post(f"{gateway.url}/mcp", json=body, headers=modern_headers(body)) as answer:
        return (await messages(answer))[-1]


async def test_a_modern_client_that_never_comes_back_leaves_nothing(
    gateway: GatewayProcess, http: aiohttp.ClientSession
) -> None:
    asked = (await call(gateway, http, "elicit"))["result"]
    assert asked["resultType"] == "input_required"
    await until(lambda: figure(gateway.url, "armory_client_parked") == 0)
    await until(lambda: figure(gateway.url, "armory_upstream_calls_in_flight") == 0)
    # The process is free: another call that asks gets its turn, and is answered in time.
    again = (await call(gateway, http, "elicit"))["result"]
    (key,) = again["inputRequests"]
    answers = {key: {"action": "decline"}}
    state = again["requestState"]
    done = await call(gateway, http, "elicit", requestState=state, inputResponses=answers)
    assert done["result"]["structuredContent"]["result"] == {"action": "decline"}
    report = (await call(gateway, http, "report"))["result"]["structuredContent"]
    assert len(report["cancelled"]) == 1
    # What was sealed for the call that is gone is of no use any more.
    state = asked["requestState"]
    late = await call(gateway, http, "elicit", requestState=state, inputResponses=answers)
    assert late["error"]["code"] == -32602


async def test_roots_that_change_reach_the_server_that_asks_for_them(
    gateway: GatewayProcess, http: aiohttp.ClientSession
) -> None:
    client = LegacyClient(f"{gateway.url}/mcp", http, "2025-11-25")
    await client.initialize({"roots": {"listChanged": True}})
    await client.request("tools/call", {"name": "up__echo", "arguments": {}})
    async with http.get(client.url, headers=client.headers) as stream:
        await client.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        asked = await question(stream)
        assert asked["method"] == "roots/list"
        roots = {"roots": [{"uri": "file:///new", "name": "new"}]}
        await client.send({"jsonrpc": "2.0", "id": asked["id"], "result": roots})
    async with asyncio.timeout(20):
        while True:
            answer = await client.request("tools/call", {"name": "up__report", "arguments": {}})
            if answer["result"]["structuredContent"]["roots"] == roots:
                return
            await asyncio.sleep(0.05)


async def question(stream: aiohttp.ClientResponse) -> dict[str, Any]:
    async for line in stream.content:
        if line.startswith(b"data:") and b'"method"' in line:
            return json.loads(line[5:])
    raise AssertionError("it never asked")


def levels(heard: list[dict[str, Any]]) -> list[str]:
    *notes, answer = heard
    assert "isError" not in answer["result"]
    return [n["params"]["level"] for n in notes if n.get("method") == "notifications/message"]


@pytest.mark.parametrize("server", ["up", "new"])
async def test_each_client_hears_the_log_from_its_own_level_on(
    gateway: GatewayProcess, http: aiohttp.ClientSession, server: str
) -> None:
    """A client of 2026-07-28 says with each request what it wants, one with a handshake once."""
    params = {"name": f"{server}__log", "arguments": {}}

    async def modern(level: str | None) -> list[str]:
        meta = None if level is None else {"io.modelcontextprotocol/logLevel": level}
        body = modern_body(1, "tools/call", params, meta)
        sent = http.post(f"{gateway.url}/mcp", json=body, headers=modern_headers(body))
        async with sent as answer:
            return levels(await messages(answer))

    legacy = LegacyClient(f"{gateway.url}/mcp", http, "2025-11-25")
    await legacy.initialize({})
    assert "error" not in await legacy.request("logging/setLevel", {"level": "error"})
    for _ in range(2):  # whatever another one of the same principal wanted before
        assert await modern("warning") == ["error"]
        assert await modern("debug") == ["debug", "info", "error"]
        assert await modern(None) == []
        body = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
        _, heard = await legacy.send(body)
        assert levels(heard) == ["error"]


async def test_a_server_of_both_eras_offers_what_it_offers_in_the_clients_own(
    gateway: GatewayProcess, http: aiohttp.ClientSession
) -> None:
    async def legacy(**declared: Any) -> set[str]:
        client = LegacyClient(f"{gateway.url}/mcp", http, "2025-11-25")
        await client.initialize(declared)
        tools = (await client.request("tools/list"))["result"]["tools"]
        missing = {name for name in NEEDS if f"both__{name}" not in {t["name"] for t in tools}}
        for name in missing:
            params = {"name": f"both__{name}", "arguments": {}}
            assert "error" in await client.request("tools/call", params)
        return missing

    assert await legacy(roots={}) == {"sample"}
    assert await legacy(sampling={}) == {"roots"}
    assert await legacy(roots={}, sampling={}) == set()
    body = modern_body(1, "tools/list")
    async with http.post(f"{gateway.url}/mcp", json=body, headers=modern_headers(body)) as answer:
        listed = (await messages(answer))[-1]["result"]["tools"]
    assert {f"both__{name}" for name in NEEDS} <= {tool["name"] for tool in listed}


@pytest.mark.parametrize("server", ["up", "new"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_tools_that_come_with_a_call_are_there_for_who_called(
    gateway: GatewayProcess, http: aiohttp.ClientSession, server: str, era: str
) -> None:
    """Its process has them; the one that the gateway lists does not."""
    legacy = LegacyClient(f"{gateway.url}/mcp", http, "2025-11-25")
    if era == "legacy":
        await legacy.initialize({})

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if era == "legacy":
            return (await legacy.request(method, params))["result"]
        body = modern_body(1, method, params)
        sent = http.post(f"{gateway.url}/mcp", json=body, headers=modern_headers(body))
        async with sent as answer:
            return (await messages(answer))[-1]["result"]

    async def listed() -> set[str]:
        return {tool["name"] for tool in (await ask("tools/list", {}))["tools"]}

    before = await listed()
    await ask("tools/call", {"name": f"{server}__grow", "arguments": {}})
    async with asyncio.timeout(10):
        while not (grown := await listed() - before):  # announcements in close order are collected
            pass
    assert [name.partition("__grown")[0] for name in grown] == [server]
