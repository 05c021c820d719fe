"""Answers as event streams: what waits for a client that reads slowly, or that may come back.

Bounded: what all sessions keep together, whoever opens them; and what is written counts as unread.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.security.authentication import Authenticator
from armory.testing.clients.raw import LegacyClient
from armory.testing.front import ScriptedPool, ScriptedUpstream, plain, result, tool
from armory.testing.serving import listen
from armory.testing.waiting import until
from armory.web.app import Listening
from armory.web.binding import bind
from armory.web.settings import ListenSettings
from armory.wire.http.edge import HttpEdge
from armory.wire.sessions import kept
from armory.wire.sessions.kept import KeptBytes
from armory.wire.streams import EventStream

pytestmark = pytest.mark.anyio
VERSION = "2025-06-18"
LARGE = "x" * (1 << 20)
SAY = {"name": "up__say", "arguments": {}}


class Client(LegacyClient):
    """One that takes answers as event streams alone."""

    @property
    def headers(self) -> dict[str, str]:
        """What every message of the session carries."""
        return {**super().headers, "Accept": "text/event-stream"}


@pytest.fixture
async def listening() -> AsyncGenerator[Listening]:
    async def answer(call: Call, _owner: Owner) -> Reply:
        pool.calls.clear()  # each holds the stream of its client
        times = 16 if plain(call.params)["name"] == "much" else 1
        return result({"content": [{"type": "text", "text": times * LARGE}]}, "legacy")

    lists = ServerLists(tools=[tool(name, name) for name in ("say", "much")])
    pool = ScriptedPool({"up": ScriptedUpstream(lists, answer, "legacy")})
    gateway = Gateway(pool)
    gateway.publish(pool.catalog())
    edge = HttpEdge(gateway, Authenticator(allow_anonymous=True))
    app = web.Application()
    edge.register(app)
    found = await listen(app, bind("127.0.0.1", 0), settings=ListenSettings(drain_timeout_s=0.1))
    await edge.start()
    yield found
    await edge.close()
    await found.close()


def held() -> int:
    """Bytes in all streams that there are."""
    gc.collect()
    every: list[Any] = gc.get_objects()
    return sum(one.size_bytes for one in every if type(one) is EventStream)


async def test_what_many_sessions_keep(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 3 * len(LARGE))
    async with aiohttp.ClientSession() as http:
        clients = [Client(f"{listening.url}/mcp", http, VERSION) for _ in range(8)]
        for client in clients:
            await client.initialize({})
            assert "result" in await client.request("tools/call", SAY)
        assert len(LARGE) < held() <= 3 * len(LARGE)
        for client in clients:
            async with http.delete(client.url, headers=client.headers) as ended:
                assert ended.status == 204
    assert held() < len(LARGE)


async def test_what_is_written_as_events_counts_until_it_is_read(listening: Listening) -> None:
    async with aiohttp.ClientSession() as http:
        client = Client(f"{listening.url}/mcp", http, VERSION)
        await client.initialize({})
        body = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "up__much"}}
        )
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        narrow.setblocking(False)
        with narrow:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(narrow, ("127.0.0.1", listening.port))
            own = {"Host": "127.0.0.1", "Content-Type": "application/json", **client.headers}
            own["Content-Length"] = str(len(body))
            head = "".join(f"{name}: {value}\r\n" for name, value in own.items())
            said = f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body
            await loop.sock_sendall(narrow, said)
            await until(lambda: listening.connections.unread > 16 * len(LARGE))
        await until(lambda: listening.connections.unread == 0)


class One:
    """A session, as far as it is counted."""

    def __init__(self, person: str) -> None:
        self.person = person
        self.forgotten = 0

    def forget(self) -> None:
        """As `Keeping.forget`."""
        self.forgotten += 1


def test_whoever_keeps_most_keeps_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 100)
    counted = KeptBytes()
    good, first, second = One("good"), One("bad"), One("bad")
    for one in (first, good, second):
        counted.keeps(one, 30)
    counted.keeps(second, 60)
    assert (counted.held, first.forgotten, good.forgotten, second.forgotten) == (90, 1, 0, 0)
    counted.keeps(good, 0)
    counted.keeps(second, 0)
    assert counted.held == 0
    counted.keeps(good, 101)
    assert (counted.held, good.forgotten) == (0, 1)
