"""One caller who takes all there is.

Bounded: sessions, streams and parked calls of each principal, the messages of a batch and the
bytes of what it is answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from armory.config import load_text
from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.runtime.settings import http_settings
from armory.security.authentication import Authenticator, StaticToken
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    asking,
    plain,
    result,
    serving,
    tool,
)
from armory.wire.http.edge import HttpEdge
from armory.wire.http.settings import HttpSettings

pytestmark = pytest.mark.anyio
NAMES = ("greedy", "other")
TOKENS = {name: f"{name}-{'t' * 40}" for name in NAMES}
LIMITS: dict[str, Any] = {
    "sessions_per_principal": 2,
    "streams_per_principal": 1,
    "parked_per_principal": 2,
    "batch_items": 6,
    "batch_answer_bytes": 20_000,
}
LARGE = "x" * 9_000


async def answer(call: Call, owner: Owner) -> Reply:
    if plain(call.params).get("name") == "ask":
        return await asking(call, owner)
    return result({"content": [{"type": "text", "text": LARGE}]}, "legacy")


@dataclass
class House:
    """A gateway with small limits, for two principals."""

    url: str
    edge: HttpEdge
    http: aiohttp.ClientSession

    async def post(self, who: str, body: Any, **headers: str) -> tuple[int, Any, str]:
        sent = {
            "Authorization": f"Bearer {TOKENS[who]}",
            "Accept": "application/json, text/event-stream",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        async with self.http.post(f"{self.url}/mcp", json=body, headers=sent) as said:
            is_json = said.content_type == "application/json"
            found = await said.json() if is_json else None
            return said.status, found, said.headers.get("Mcp-Session-Id", "")

    async def open(self, who: str) -> tuple[int, Any, str]:
        params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        return await self.post(who, hello)

    async def park(self, who: str) -> Any:
        params = {"name": "up__ask", "arguments": {}}
        body = modern_body(1, "tools/call", params, capabilities={"elicitation": {"form": {}}})
        return (await self.post(who, body, **modern_headers(body)))[1]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        lists = ServerLists(tools=[tool("say", "says"), tool("ask", "asks")])
        pool = ScriptedPool({"up": ScriptedUpstream(lists, answer, "legacy")})
        gateway = Gateway(pool)
        gateway.publish(pool.catalog())
        tokens = [StaticToken(name, TOKENS[name]) for name in NAMES]
        checks = Authenticator(tokens, allow_anonymous=False)
        served = serving(gateway, checks, HttpSettings(**LIMITS))
        url, edge = await stack.enter_async_context(served)
        yield House(url, edge, await stack.enter_async_context(aiohttp.ClientSession()))


async def test_sessions_of_one_caller(house: House) -> None:
    opened = [await house.open("greedy") for _ in range(3)]
    assert [status for status, _, _ in opened] == [200, 200, 503]
    assert "server.limits.sessions_per_principal" in opened[2][1]["error"]["message"]
    assert (await house.open("other"))[0] == 200
    headers = {"Authorization": f"Bearer {TOKENS['greedy']}", "Mcp-Session-Id": opened[0][2]}
    async with house.http.delete(f"{house.url}/mcp", headers=headers) as ended:
        assert ended.status == 204
    assert (await house.open("greedy"))[0] == 200


async def test_streams_of_one_caller(house: House) -> None:
    async with AsyncExitStack() as stack:
        seen: list[tuple[str, int]] = []
        for who in ("greedy", "greedy", "other"):
            session = (await house.open(who))[2]
            headers = {
                "Authorization": f"Bearer {TOKENS[who]}",
                "Accept": "text/event-stream",
                "Mcp-Session-Id": session,
            }
            stream = house.http.get(f"{house.url}/mcp", headers=headers)
            said = await stack.enter_async_context(stream)
            seen.append((who, said.status))
            if said.status == 503:
                assert "server.limits.streams_per_principal" in await said.text()
        assert seen == [("greedy", 200), ("greedy", 503), ("other", 200)]
        assert len(house.edge.streams) == 2


async def test_parked_calls_of_one_caller(house: House) -> None:
    for _ in range(2):
        assert (await house.park("greedy"))["result"]["resultType"] == "input_required"
    refused = (await house.park("greedy"))["error"]
    assert "server.limits.parked_per_principal" in refused["message"]
    assert (await house.park("other"))["result"]["resultType"] == "input_required"
    assert house.edge.interactions.parked == 3


def calls(count: int) -> list[Any]:
    params = {"name": "up__say", "arguments": {}}
    return [
        {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params} for n in range(count)
    ]


async def test_messages_of_a_batch(house: House) -> None:
    session = (await house.open("greedy"))[2]
    status, said, _ = await house.post("greedy", calls(7), Mcp_Session_Id=session)
    assert status == 400
    assert "server.limits.batch_items" in said["error"]["message"]


async def test_bytes_of_what_a_batch_is_answered(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.wire.http.legacy._BATCH_AT_ONCE", 1)
    session = (await house.open("greedy"))[2]
    _, said, _ = await house.post("greedy", calls(6), Mcp_Session_Id=session)
    assert sorted(item["id"] for item in said) == list(range(6))
    refused = [item["error"]["message"] for item in said if "error" in item]
    assert len(refused) == 3
    assert all("server.limits.batch_answer_bytes" in message for message in refused)


def test_the_limits_have_keys() -> None:
    config = load_text(f"server: {{limits: {LIMITS}}}", environ={}).config
    settings = http_settings(config)
    assert {name: getattr(settings, name) for name in LIMITS} == LIMITS
