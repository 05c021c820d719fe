"""Clients that listen: what they hold, what ends it, and what they are told in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from armory.gateway.gateway import Gateway
from armory.security.authentication import Authenticator, StaticToken
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import ScriptedPool, serving
from armory.testing.waiting import until
from armory.wire.settings import HttpSettings

pytestmark = pytest.mark.anyio
LISTEN = modern_body(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})


@pytest.fixture
def gateway() -> Gateway:
    return Gateway(ScriptedPool())


@asynccontextmanager
async def listening_over_sse(
    http: aiohttp.ClientSession, url: str, times: int, token: str = ""
) -> AsyncGenerator[aiohttp.StreamReader]:
    """An HTTP+SSE connection on which a modern client has asked to listen."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with http.get(f"{url}/sse", headers=headers) as stream:
        await stream.content.readuntil(b"data: ")
        path = (await stream.content.readline()).decode().strip()
        for _ in range(times):
            async with http.post(url + path, json=LISTEN, headers=headers) as taken:
                assert taken.status == 202
        yield stream.content


async def test_listening_twice_by_one_id_leaves_nothing_behind(gateway: Gateway) -> None:
    async with serving(gateway) as (url, _edge), aiohttp.ClientSession() as http:
        async with listening_over_sse(http, url, 3):
            await until(lambda: len(gateway.changes) == 3)
        await until(lambda: len(gateway.changes) == 0)


async def test_a_principal_that_may_connect_no_more_hears_no_more(gateway: Gateway) -> None:
    tokens = [StaticToken(name, f"the-secret-of-{name}") for name in ("ann", "bob")]
    checks = Authenticator(tokens, allow_anonymous=False)
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:
        ann = listening_over_sse(http, url, 1, "the-secret-of-ann")
        bob = listening_over_sse(http, url, 1, "the-secret-of-bob")
        async with ann as hers, bob as his, asyncio.timeout(10):
            await until(lambda: len(gateway.changes) == 2)
            await edge.end_principal("token:bob")
            assert b"acknowledged" in await his.read()
            await until(lambda: len(gateway.changes) == 1)
            assert not hers.at_eof()


@pytest.mark.parametrize(
    ("accept", "status"),
    [("application/json, text/event-stream", 503), ("application/json", 406)],
)
async def test_a_browser_can_read_why_it_may_not_listen(
    gateway: Gateway, accept: str, status: int
) -> None:
    origin = "http://localhost:3000"
    headers: dict[str, Any] = {**modern_headers(LISTEN), "Origin": origin, "Accept": accept}
    async with (
        serving(gateway, settings=HttpSettings(streams=0)) as (url, _edge),
        aiohttp.ClientSession() as http,
        http.post(f"{url}/mcp", json=LISTEN, headers=headers) as response,
    ):
        assert response.status == status
        assert response.headers["Access-Control-Allow-Origin"] == origin
