"""Requests that come before what answers them: they wait, health does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from armory.testing.waiting import until
from armory.web.app import Listening, make_app
from armory.web.binding import bind
from armory.web.settings import ListenSettings

pytestmark = pytest.mark.anyio
BODY = b"x" * 2_000


@asynccontextmanager
async def listening() -> AsyncGenerator[tuple[Listening, aiohttp.ClientSession]]:
    """A server that accepts connections and has no application yet; one client of it."""
    settings = ListenSettings(drain_timeout_s=60.0)
    found = Listening(bind("127.0.0.1", 0), settings, "/below", body_bytes=len(BODY))
    await found.begin()
    try:
        timeout = aiohttp.ClientTimeout(total=20)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as client:
            yield found, client
    finally:
        await found.close()


def echo() -> web.Application:
    """An application that sends bodies back."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    app = make_app(body_bytes=len(BODY))
    app.router.add_post("/below/echo", answer)
    return app


def waiting(server: Listening) -> int:
    """How many requests wait to be answered."""
    asked = [one.request for one in server.connections.every()]
    return sum(request is not None and request.method == "POST" for request in asked)


async def alive(client: aiohttp.ClientSession, server: Listening) -> bool:
    async with client.get(f"{server.url}/healthz") as answer:
        return answer.status == 200 and await answer.json() == {"status": "ok"}


async def test_what_comes_early_waits_and_health_is_answered() -> None:
    async with listening() as (server, client):

        async def post() -> bytes:
            async with client.post(f"{server.url}/echo", data=BODY) as answer:
                return await answer.read()

        early = [asyncio.create_task(post()) for _ in range(3)]
        while waiting(server) < len(early):
            assert await alive(client, server)
        assert not any(task.done() for task in early)
        await server.serve(echo())
        assert await asyncio.gather(*early) == [BODY] * len(early)
        assert await post() == BODY


async def test_a_connection_that_came_early_is_served_by_the_application_afterwards() -> None:
    async with listening() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        heads: list[bytes] = []
        for path in (b"/below/healthz", b"/below/nothing"):
            writer.write(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path)
            if heads:
                await server.serve(echo())
            async with asyncio.timeout(10):
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                length = int(heads[-1].lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
        writer.close()
        await writer.wait_closed()
    assert [head.split(b" ")[1] for head in heads] == [b"200", b"404"]


async def test_what_waits_is_told_when_nothing_will_answer() -> None:
    async with listening() as (server, client):

        async def post() -> int:
            async with client.post(f"{server.url}/echo", data=BODY) as answer:
                return answer.status

        early = asyncio.create_task(post())
        while not waiting(server):
            assert await alive(client, server)
        async with asyncio.timeout(30):
            await server.close()
            assert await early == 503


async def test_it_can_be_closed_twice() -> None:
    async with listening() as (server, _):
        ended: list[str] = []
        app = echo()

        async def note(_: web.Application) -> None:
            ended.append("told")

        app.on_shutdown.append(note)
        await server.serve(app)
        await server.close()
        await server.close()
    assert ended == ["told"]


async def test_what_is_named_like_health_waits_like_others() -> None:
    """An upstream may be called `metrics`, and a set `readyz`."""
    ready = asyncio.Event()
    waits = 0

    async def wait_ready() -> None:
        nonlocal waits
        waits += 1
        await ready.wait()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.path)

    app = make_app(body_bytes=0, wait_ready=wait_ready, base_path="/below")
    for path in ("/below/metrics", "/below/mcp/metrics", "/below/mcp/set/readyz"):
        app.router.add_get(path, answer)
    async with listening() as (server, client):
        await server.serve(app)

        async def get(path: str) -> str:
            async with client.get(f"{server.url}{path}") as found:
                return await found.text()

        held = [asyncio.create_task(get(path)) for path in ("/mcp/metrics", "/mcp/set/readyz")]
        assert await get("/metrics") == "/below/metrics"
        await until(lambda: waits == len(held), timeout_s=5)
        ready.set()
        assert await asyncio.gather(*held) == ["/below/mcp/metrics", "/below/mcp/set/readyz"]
