"""Clients that listen: what they hold, what ends it, and what they are told in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from armory.domain.principal import Principal
from armory.gateway.gateway import Gateway, Services
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


class Slow:
    """`gateway.ports.Limiter`: lets requests begin once they may."""

    def __init__(self) -> None:
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def acquire(self, principal: Principal, method: str, name: str) -> None:
        pass

    async def take(self, principal: Principal) -> None:
        self.asked.set()
        await self.may.wait()


async def test_a_stream_that_opens_as_the_gateway_ends_is_ended_properly() -> None:
    slow = Slow()
    gateway = Gateway(ScriptedPool(), services=Services(limiter=slow))
    async with serving(gateway) as (url, edge), aiohttp.ClientSession() as http:
        headers = modern_headers(LISTEN)
        async with asyncio.timeout(10):
            asking = asyncio.create_task(http.post(f"{url}/mcp", json=LISTEN, headers=headers))
            await slow.asked.wait()
            edge.end_streams()
            slow.may.set()
            async with await asking as stream:
                assert b'"resultType":"complete"' in await stream.read()


async def test_so_is_one_over_http_sse() -> None:
    slow = Slow()
    gateway = Gateway(ScriptedPool(), services=Services(limiter=slow))
    async with (
        serving(gateway) as (url, edge),
        aiohttp.ClientSession() as http,
        listening_over_sse(http, url, 1) as events,
        asyncio.timeout(10),
    ):
        await slow.asked.wait()
        edge.end_streams()
        slow.may.set()
        assert b'"resultType":"complete"' in await events.read()


async def test_a_stream_that_comes_too_late_is_told_that_the_gateway_stops(
    gateway: Gateway,
) -> None:
    async with serving(gateway) as (url, edge), aiohttp.ClientSession() as http:
        edge.end_streams()
        headers = modern_headers(LISTEN)
        async with http.post(f"{url}/mcp", json=LISTEN, headers=headers) as refused:
            assert refused.status == 503
            assert "the gateway stops" in (await refused.json())["error"]["message"]
    assert edge.refused()["streams"] == 0
