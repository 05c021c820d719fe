"""Two principals at once on servers that keep state: nothing of the one reaches the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import aiohttp
import pytest

from armory.testing.clients.raw import LegacyClient
from armory.testing.clients.talker import Talker
from armory.testing.processes import GatewayProcess

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(120)]
Era = Literal["modern", "legacy"]


@asynccontextmanager
async def person(name: str) -> AsyncGenerator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer token-of-{name}"}
    timeout = aiohttp.ClientTimeout(total=40)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        yield session


async def remember(talker: Talker, whose: str, number: int) -> None:
    entity = {"name": f"{whose}-{number}", "entityType": "secret", "observations": [whose]}
    call = {"name": "memory__create_entities", "arguments": {"entities": [entity]}}
    told = await talker.tell("tools/call", call)
    assert not told.message["result"].get("isError"), told.message


async def known(talker: Talker) -> set[str]:
    told = await talker.tell("tools/call", {"name": "memory__read_graph", "arguments": {}})
    graph = json.loads(told.message["result"]["content"][0]["text"])
    return {entity["name"] for entity in graph["entities"]}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_each_has_a_memory_of_its_own(gateway: GatewayProcess, era: Era) -> None:
    async with person("ada") as ada_http, person("bob") as bob_http:
        ada = Talker(ada_http, f"{gateway.url}/mcp", era)
        bob = Talker(bob_http, f"{gateway.url}/mcp", era)
        before = (await known(ada), await known(bob))
        for number in range(4):
            await asyncio.gather(
                remember(ada, f"ada-{era}", number), remember(bob, f"bob-{era}", number)
            )
        ada_knows, bob_knows = await asyncio.gather(known(ada), known(bob))
    assert ada_knows - before[0] == {f"ada-{era}-{n}" for n in range(4)}
    assert bob_knows - before[1] == {f"bob-{era}-{n}" for n in range(4)}
    assert not any(name.startswith("bob") for name in ada_knows)
    assert not any(name.startswith("ada") for name in bob_knows)


class Ear:
    """Reads a legacy session's general stream."""

    def __init__(self, http: aiohttp.ClientSession, client: LegacyClient) -> None:
        self._http = http
        self._client = client
        self.heard: list[dict[str, Any]] = []
        self.open = asyncio.Event()
        self.logged = asyncio.Event()

    async def listen(self) -> None:
        headers = {**self._client.headers, "Accept": "text/event-stream"}
        async with self._http.get(self._client.url, headers=headers) as response:
            assert response.status == 200
            self.open.set()
            async for line in response.content:
                if line.startswith(b"data:") and line[5:].strip():
                    message = json.loads(line[5:])
                    self.heard.append(message)
                    if message.get("method") == "notifications/message":
                        self.logged.set()


async def test_log_messages_reach_only_whose_session_logs(gateway: GatewayProcess) -> None:
    async with person("ada") as ada_http, person("bob") as bob_http:
        ada = LegacyClient(f"{gateway.url}/mcp", ada_http, "2025-11-25")
        bob = LegacyClient(f"{gateway.url}/mcp", bob_http, "2025-11-25")
        for client in (ada, bob):
            await client.initialize({})
            answer = await client.request("logging/setLevel", {"level": "debug"})
            assert "error" not in answer
        ears = (Ear(ada_http, ada), Ear(bob_http, bob))
        tasks = [asyncio.create_task(ear.listen()) for ear in ears]
        try:
            async with asyncio.timeout(30):
                await asyncio.gather(*(ear.open.wait() for ear in ears))
                echo = {"name": "everything__echo", "arguments": {"message": "here"}}
                await bob.request("tools/call", echo)  # bob has a session upstream as well
                toggle = {"name": "everything__toggle-simulated-logging", "arguments": {}}
                await ada.request("tools/call", toggle)
                await ears[0].logged.wait()
            await ada.request("tools/call", toggle)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    assert not [m for m in ears[1].heard if m.get("method") == "notifications/message"]


async def test_a_session_serves_only_the_principal_that_opened_it(gateway: GatewayProcess) -> None:
    async with person("ada") as ada_http, person("bob") as bob_http:
        ada = LegacyClient(f"{gateway.url}/mcp", ada_http, "2025-11-25")
        await ada.initialize({})
        stolen = LegacyClient(ada.url, bob_http, ada.version, session=ada.session)
        status, _ = await stolen.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert status == 404
