"""Requests that one replica passes on to another, as the other sees them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import aiohttp
import pytest

from armory.gateway.gateway import Gateway
from armory.storage.cache import MemoryCache
from armory.testing.clients.raw import LegacyClient
from armory.testing.front import ScriptedPool, WordRetriever, serving
from armory.wire.settings import HttpSettings

pytestmark = pytest.mark.anyio


async def test_a_request_is_seen_as_it_was_where_it_came_in() -> None:
    """Another replica is no proxy that anybody named, and has not the name that clients use."""
    gateway, store = Gateway(ScriptedPool(), WordRetriever()), MemoryCache()
    behind = HttpSettings(allowed_hosts=["tools.example"], trusted_proxies=["127.0.0.1"])
    async with (
        serving(gateway, settings=behind, store=store) as (one, _),
        serving(gateway, settings=replace(behind, trusted_proxies=()), store=store) as (two, _),
        aiohttp.ClientSession() as http,
    ):
        client = LegacyClient(two + "/mcp", http, "2025-11-25")
        await client.initialize({})
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        named = {
            "Host": "inside",
            "X-Forwarded-Host": "tools.example",
            "X-Forwarded-For": "9.9.9.9",
        }
        guessed = {**named, "X-Armory-Passed": "1"}
        for url, headers, expected in ((one, named, 200), (two, named, 403), (two, guessed, 403)):
            headers = {**client.headers, **headers}
            async with http.post(url + "/mcp", json=ping, headers=headers) as answer:
                assert answer.status == expected


async def test_messages_of_a_client_of_2024_find_its_stream() -> None:
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old"}}
    initialize = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": hello}
    gateway, store = Gateway(ScriptedPool(), WordRetriever()), MemoryCache()
    async with (
        asyncio.timeout(20),
        serving(gateway, store=store) as (one, _),
        serving(gateway, store=store) as (two, _),
        aiohttp.ClientSession() as http,
    ):

        async def posted(path: str) -> int:
            async with http.post(two + path, json=initialize) as answer:
                return answer.status

        async with http.get(one + "/sse", headers={"Accept": "text/event-stream"}) as stream:
            assert await stream.content.readline() == b"event: endpoint\n"
            path = (await stream.content.readline()).decode().removeprefix("data: ").strip()
            assert await posted(path) == 202
            while not (line := await stream.content.readline()).startswith(b"data: "):
                pass
            assert b'"id":7' in line
            assert await posted(path[:-1]) == 404
        while await posted(path) != 404:  # noqa: ASYNC110 - the end of a stream announces nothing
            await asyncio.sleep(0.01)
