"""A gateway over two scripted upstreams, one of each era, behind a real HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway, Services
from armory.gateway.settings import GatewaySettings, SetSpec
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.versions import Era
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    WordRetriever,
    plain,
    refused,
    result,
    serving,
    tool,
)
from armory.testing.identity import IdentityProvider
from armory.testing.people import World
from armory.testing.upstreams.accounts import AccountsServer
from armory.wire.http.edge import HttpEdge


def lists(era: Era) -> ServerLists:
    capabilities: dict[str, Any] = {
        "tools": {"listChanged": True},
        "prompts": {},
        "resources": {"subscribe": True},
        "completions": {},
        "logging": {},
    }
    return ServerLists(
        tools=[
            tool("now", "tells the current time in a zone", xVendor={"kept": [1, 2]}),
            tool("echo", "says what it hears", outputSchema={"type": "string"}),
            tool("fail", "always fails"),
        ],
        prompts=[{"name": "greet", "description": "greets", "arguments": [{"name": "who"}]}],
        resources=[{"uri": "file:///readme", "name": "readme"}],
        templates=[{"uriTemplate": "file:///{path}", "name": "files"}],
        info={"name": f"{era}-server", "version": "1"},
        instructions=f"A scripted {era} server.",
        capabilities=capabilities,
        cache={"tools/list": (5000, "public")} if era == "modern" else {},
    )


async def answer(call: Call, owner: Owner, era: Era) -> Reply:
    params = plain(call.params)
    complete: dict[str, Any] = {"resultType": "complete"} if era == "modern" else {}
    match call.method:
        case "tools/call" if params["name"] == "fail":
            return result({"content": [{"type": "text", "text": "no"}], "isError": True}, era)
        case "tools/call":
            content = [
                {
                    "type": "text",
                    "text": msgspec.json.encode(params).decode(),
                    "extra": {"a": 1.50},
                },
                {"type": "resource_link", "uri": "file:///readme", "name": "readme"},
                {"type": "unheard-of", "data": [None, True]},
            ]
            return result({**complete, "content": content, "unknownField": {"x": 1}}, era)
        case "prompts/get":
            message = {"role": "user", "content": {"type": "text", "text": "hi"}}
            return result({**complete, "messages": [message]}, era)
        case "resources/read" if params["uri"] == "file:///readme":
            contents = [{"uri": params["uri"], "text": "read me"}]
            cached = {"ttlMs": 9, "cacheScope": "public"} if era == "modern" else {}
            return result({**complete, "contents": contents, **cached}, era)
        case "resources/read":
            code = -32602 if era == "modern" else -32002
            return refused(code, "no such resource", {"uri": params["uri"]}, era)
        case "completion/complete":
            return result({**complete, "completion": {"values": [params["ref"]["type"]]}}, era)
        case _:
            return refused(-32601, f"Method not found: {call.method}", era=era)


class Relisting:
    """Fetches lists anew where a test says how."""

    def __init__(self) -> None:
        self.how: Callable[[str], Awaitable[None]] | None = None

    async def __call__(self, server: str) -> None:
        if self.how is not None:
            await self.how(server)


@dataclass
class Front:
    """The gateway under test, and what stands around it."""

    url: str
    edge: HttpEdge
    gateway: Gateway
    pool: ScriptedPool
    retriever: WordRetriever
    http: aiohttp.ClientSession
    relisting: Relisting
    count: int = field(default=0)

    async def modern(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        path: str = "/mcp",
        meta: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        capabilities: dict[str, Any] | None = None,
        drop: tuple[str, ...] = (),
    ) -> tuple[int, dict[str, Any]]:
        """One modern POST; gives status and the last message of the answer."""
        self.count += 1
        body = modern_body(self.count, method, params, meta, capabilities)
        sent = {**modern_headers(body), **(headers or {})}
        for name in drop:
            del sent[name]
        async with self.http.post(self.url + path, json=body, headers=sent) as response:
            return response.status, (await messages(response))[-1]

    async def start_legacy(
        self,
        version: str = "2025-11-25",
        capabilities: dict[str, Any] | None = None,
        path: str = "/mcp",
    ) -> LegacyClient:
        """A handshake."""
        client = LegacyClient(self.url + path, self.http, version)
        await client.initialize(capabilities or {})
        return client


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client whose requests end within half a minute."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield session


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async def modern(call: Call, owner: Owner) -> Reply:
        return await answer(call, owner, "modern")

    async def legacy(call: Call, owner: Owner) -> Reply:
        return await answer(call, owner, "legacy")

    pool = ScriptedPool(
        {
            "new": ScriptedUpstream(lists("modern"), modern, "modern"),
            "old": ScriptedUpstream(lists("legacy"), legacy, "legacy"),
        }
    )
    retriever = WordRetriever()
    settings = GatewaySettings(sets={"clocks": SetSpec(tools=("*__now",))})
    relisting = Relisting()
    services = Services(relist=relisting)
    gateway = Gateway(pool, retriever, settings=settings, services=services)
    catalog = pool.catalog()
    await retriever.index(list(catalog.tools.values()))
    gateway.publish(catalog)
    async with serving(gateway) as (url, edge), aiohttp.ClientSession() as http:
        yield Front(url, edge, gateway, pool, retriever, http, relisting)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    """An identity provider, and an upstream at which its people have accounts."""
    async with (
        IdentityProvider() as provider,
        AccountsServer(provider.verified, provider.issuer) as upstream,
    ):
        found = World(provider, upstream, tmp_path)
        yield found
        await found.http.close()


class Hanging:
    """The upstream `old`, whose calls end only when they are cancelled.

    Attributes:
        why: what the last one was cancelled with.
    """

    def __init__(self, front: Front) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()
        self.why: tuple[Any, ...] = ()
        front.pool.upstreams["old"].answer = self.answer

    async def answer(self, call: Call, owner: Owner) -> Reply:
        del call, owner
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            self.why = cancelled.args
            raise
        finally:
            self.ended.set()
        raise AssertionError


@pytest.fixture
def hanging(front: Front) -> Hanging:
    return Hanging(front)
