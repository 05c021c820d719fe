"""Legacy requests in the task of their connection: cancelled, left, and what comes after them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from msgspec import Raw

from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import LegacyClient
from armory.testing.front import result
from armory.testing.waiting import until
from tests.protocol.test_streams import events, next_event

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
NOW = {"name": "old__now", "arguments": {}}


class Held:
    """An answer that comes when it may."""

    def __init__(self, front: Front) -> None:
        self.begun, self.may, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.cancelled = False
        front.pool.upstreams["old"].answer = self.answer

    async def answer(self, call: Call, owner: Owner) -> Reply:
        del call, owner
        self.begun.set()
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.ended.set()
        return result({"content": []})


def one_connection(made: list[int] | None = None) -> aiohttp.ClientSession:
    """One at a time; each that is made is noted."""
    trace = aiohttp.TraceConfig()

    async def note(*_: object) -> None:
        if made is not None:
            made.append(1)

    trace.on_connection_create_end.append(note)
    connector = aiohttp.TCPConnector(limit=1)
    return aiohttp.ClientSession(connector=connector, trace_configs=[trace])


def body(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": NOW}


async def in_session(http: aiohttp.ClientSession, url: str) -> LegacyClient:
    client = LegacyClient(url, http, "2025-11-25")
    await client.initialize({})
    return client


async def shows_that_leaving_is_not_cancelling(front: Front, url: str) -> None:
    """A client leaves a call that is under way, which goes on to its end."""
    held = Held(front)
    http = one_connection()
    client = await in_session(http, url)
    call = asyncio.ensure_future(client.send(body(1)))
    await asyncio.wait_for(held.begun.wait(), 30)
    await http.close()
    with pytest.raises(aiohttp.ClientError):
        await call
    client.http = front.http
    assert (await client.request("ping"))["result"] == {}  # the end is known by then
    held.may.set()
    await asyncio.wait_for(held.ended.wait(), 30)
    assert not held.cancelled


@pytest.mark.parametrize("way", ["notification", "session"])
async def test_the_connection_of_a_cancelled_request_serves_on(front: Front, way: str) -> None:
    held, made = Held(front), list[int]()
    async with one_connection(made) as http:
        client = await in_session(http, front.url + "/mcp")
        call = asyncio.ensure_future(client.send(body(1)))
        await asyncio.wait_for(held.begun.wait(), 30)
        if way == "notification":
            cancelled = {"method": "notifications/cancelled", "params": {"requestId": 1}}
            note = {"jsonrpc": "2.0", **cancelled}
            async with front.http.post(client.url, json=note, headers=client.headers) as response:
                assert response.status == 202
        else:
            async with front.http.delete(client.url, headers=client.headers) as response:
                assert response.status == 204
        status, said = await asyncio.wait_for(call, 30)
        if way == "notification":
            assert (status, said) == (202, [])
        else:  # else an SDK waits for the answer until its time runs out
            assert (status, said[0]["error"]["code"]) == (404, -32001)
        assert held.cancelled
        again = await in_session(http, front.url + "/mcp")
        assert (await asyncio.wait_for(again.request("ping"), 30))["result"] == {}
        assert made == [1]


async def test_who_resumes_before_its_first_connection_ends_misses_nothing(front: Front) -> None:
    """As after a sleep, or where the way to the gateway changed: that end is noticed late."""
    may, many = asyncio.Event(), 1_000

    async def answer(call: Call, owner: Owner) -> Reply:
        del owner
        assert call.client is not None
        for done in range(many):
            params = {"progressToken": Raw(b"1"), "progress": Raw(b"%d" % done)}
            await call.client.notify("notifications/progress", params)
            if not done:
                await may.wait()
        return result({"content": []})

    front.pool.upstreams["old"].answer = answer
    async with one_connection() as http, asyncio.timeout(30):
        client = await in_session(http, front.url + "/mcp")
        sent = {**body(1), "params": {**NOW, "_meta": {"progressToken": 1}}}
        async with http.post(client.url, json=sent, headers=client.headers) as first:
            before = events(first)
            last = [await next_event(before) for _ in range(2)][-1]
            resumed = {**client.headers, "Last-Event-ID": last.id or ""}
            async with front.http.get(client.url, headers=resumed) as again:
                assert again.status == 200
                await until(first.content.at_eof)  # somebody else reads it now
                await http.close()
                client.http = front.http
                assert (await client.request("ping"))["result"] == {}  # the end is known by then
                may.set()
                got = [event.data async for event in events(again) if event.data is not None]
        told = [message["params"]["progress"] for message in got[:-1]]
        assert (told, got[-1]["id"]) == (list(range(1, many)), 1)


async def test_a_client_that_leaves_has_not_cancelled(front: Front) -> None:
    await shows_that_leaving_is_not_cancelling(front, front.url + "/mcp")


async def test_a_server_that_cancels_whom_nobody_waits_for_serves_in_tasks(front: Front) -> None:
    app = web.Application()
    front.edge.register(app)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
        await shows_that_leaving_is_not_cancelling(front, url)
    finally:
        await runner.cleanup()
