"""A gateway with small limits for each caller, and two callers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
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
from armory.wire.settings import HttpSettings

NAMES = ("greedy", "spare", "other")
"""Of tokens, the first two one user's."""
TOKENS = {name: f"{name}-{'t' * 40}" for name in NAMES}
LIMITS: dict[str, Any] = {
    "sessions_per_principal": 2,
    "streams_per_principal": 1,
    "parked_per_principal": 2,
    "batch_items": 6,
    "batch_answer_bytes": 20_000,
}
HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}}
LARGE = "x" * 9_000
BUSY_S = 0.02


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
    waiting: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)
    turn: int = 0
    began: Counter[int] = field(default_factory=Counter[int])

    async def answer(self, call: Call, owner: Owner) -> Reply:
        """What the upstream answers; `wait` once it may `go`, `busy` after a while of computing."""
        if plain(call.params).get("name") == "busy":
            end = time.perf_counter() + BUSY_S
            while time.perf_counter() < end:
                pass
        if plain(call.params).get("name") != "wait":
            self.began[self.turn] += 1
            return await answer(call, owner)
        self.waiting += 1
        await self.go.wait()
        return result({"content": []}, "legacy")

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
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        return await self.post(who, hello)

    async def park(self, who: str) -> Any:
        params = {"name": "up__ask", "arguments": {}}
        body = modern_body(1, "tools/call", params, capabilities={"elicitation": {"form": {}}})
        return (await self.post(who, body, **modern_headers(body)))[1]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        lists = ServerLists(tools=[tool(name, name) for name in ("say", "ask", "wait", "busy")])
        made: list[House] = []

        async def answered(call: Call, owner: Owner) -> Reply:
            return await made[0].answer(call, owner)

        pool = ScriptedPool({"up": ScriptedUpstream(lists, answered, "legacy")})
        gateway = Gateway(pool)
        gateway.publish(pool.catalog())
        users = {"greedy": "eve", "spare": "eve"}
        tokens = [StaticToken(name, TOKENS[name], user=users.get(name)) for name in NAMES]
        checks = Authenticator(tokens, allow_anonymous=False)
        served = serving(gateway, checks, HttpSettings(**LIMITS))
        url, edge = await stack.enter_async_context(served)
        made.append(House(url, edge, await stack.enter_async_context(aiohttp.ClientSession())))
        yield made[0]


def calls(count: int) -> list[Any]:
    params = {"name": "up__say", "arguments": {}}
    return [
        {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params} for n in range(count)
    ]
