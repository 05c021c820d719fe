"""Far more connections than there is room for.

Bounded: how many of the others are looked at so that one more has room, whatever they are, and what
all that they send and do not end may hold, and how many of all one caller may keep from others.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.security.authentication import Authenticator, StaticToken
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, plain, result, serving, tool
from armory.testing.serving import listen
from armory.testing.waiting import until
from armory.web.app import Listening, make_app
from armory.web.binding import bind
from armory.web.connections.connection import Connection
from armory.web.settings import RESERVED, ListenSettings

pytestmark = pytest.mark.anyio
PATIENCE_S = 20
ROOM = 100
TOKENS = {name: f"{name}-{'t' * 40}" for name in ("good", "evil")}
HANG = b"POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
ASK = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


async def _health(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


async def _who_asks(request: web.Request) -> str | None:
    return request.query_string or None


async def _ask(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="done")


async def _hang(request: web.Request) -> web.StreamResponse:
    await request.read()
    request.protocol.understood()  # type: ignore[attr-defined]  # as the edge
    request.protocol.caller = request.query_string  # type: ignore[attr-defined]  # as `Admission`
    await asyncio.Event().wait()
    return web.Response()


class Clients:
    """A server with room for a hundred, and its clients."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.connections = listening.connections
        self.writers: list[asyncio.StreamWriter] = []
        self.sockets: list[socket.socket] = []

    async def connect(self, said: bytes) -> asyncio.StreamReader:
        """One more, who says something."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listening.port)
        self.writers.append(writer)
        writer.write(said)
        return reader

    def connect_at_once(self, said: bytes) -> None:
        """One more, who has said something by the time that it is accepted."""
        made = socket.create_connection(("127.0.0.1", self.listening.port))
        made.sendall(said)
        self.sockets.append(made)

    async def answered(self) -> asyncio.StreamReader:
        """One more, who waits for its next request."""
        reader = await self.connect(ASK)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readuntil(b"\r\n\r\nok")
        return reader

    def leave(self) -> None:
        """All go."""
        for writer in self.writers:
            writer.transport.abort()
        for made in self.sockets:
            made.close()

    async def evicted(self, count: int) -> None:
        """Wait until so many made room."""
        await until(lambda: self.connections.cut.get("evicted", 0) == count)


def hang(caller: str = "") -> bytes:
    """A request of somebody's that is not answered."""
    return HANG.replace(b"/hang", f"/hang?{caller}".encode())


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    app = make_app(body_bytes=1 << 20)
    app.router.add_get("/healthz", _health)
    app.router.add_get("/ask", _ask)
    app.router.add_post("/hang", _hang)
    settings = ListenSettings(connections=ROOM, drain_timeout_s=0.1, arriving_bytes=1 << 20)
    found = Clients(await listen(app, bind("127.0.0.1", 0), settings=settings, who_asks=_who_asks))
    yield found
    found.leave()
    await found.listening.close()


@pytest.mark.parametrize("said", [b"", b"POST /mc", ASK], ids=["nothing", "half", "a request"])
async def test_room_is_made_without_a_look_at_all_others(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """With 15,000 connections each further one took 5 ms."""
    looks = 0
    waiting = Connection.waiting.fget
    assert waiting is not None

    def counted(self: Connection) -> bool:
        nonlocal looks
        looks += 1
        return waiting(self)

    monkeypatch.setattr(Connection, "waiting", property(counted))
    for _ in range(4 * ROOM):
        if said == ASK:
            await clients.answered()
        else:
            await clients.connect(said)
    await clients.evicted(3 * ROOM)
    assert looks < 100 * ROOM  # a look at all of them each time: 300 * ROOM; here: 7 * ROOM


async def test_who_had_no_request_goes_first_then_who_is_idle_for_longest(clients: Clients) -> None:
    first = await clients.answered()
    silent = await clients.connect(b"")
    others = [await clients.answered() for _ in range(ROOM - 2)]
    await until(lambda: len(clients.connections) == ROOM)
    clients.writers[0].write(ASK)  # who came first was idle for the shortest
    async with asyncio.timeout(PATIENCE_S):
        assert await first.readuntil(b"\r\n\r\nok")
        for count, gone in enumerate([silent, *others[: ROOM // 2]], start=1):
            await clients.answered()
            await clients.evicted(count)
            assert await gone.read() == b""
    assert not first.at_eof()


async def test_with_every_connection_busy_health_is_answered(clients: Clients) -> None:
    connections = clients.connections
    for _ in range(ROOM):
        await clients.connect(HANG)
    await until(lambda: [one.waiting for one in connections.every()] == [False] * ROOM)
    await clients.answered()
    refused = await clients.connect(ASK.replace(b"healthz", b"hang"))
    async with asyncio.timeout(PATIENCE_S):
        assert await refused.readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
    for _ in range(RESERVED + 20):
        await clients.connect(b"")
    await until(lambda: sum(connections.cut.get(why, 0) for why in ("full", "evicted")) >= 20)
    assert len(connections) <= ROOM + RESERVED
    await clients.answered()


async def test_who_has_more_than_half_of_all_makes_room_for_others(clients: Clients) -> None:
    """One caller's calls took every connection for as long as they ran."""
    connections = clients.connections
    good = [await clients.connect(hang("good")) for _ in range(ROOM // 4)]
    evil = [await clients.connect(hang("evil")) for _ in range(ROOM - ROOM // 4)]
    await until(lambda: [one.waiting for one in connections.every()] == [False] * ROOM)
    for count in range(1, 4):  # each stays, and its next request needs no room
        reader = await clients.connect(ask := ASK.replace(b"/healthz", b"/ask?new"))
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readuntil(b"\r\n\r\ndone")).startswith(b"HTTP/1.1 200 OK\r\n")
            clients.writers[-1].write(ask)
            assert await reader.readuntil(b"\r\n\r\ndone")
            clients.writers[-1].write(hang("new"))
            assert await evil[-count].read() == b""  # the newest goes first
        await until(lambda count=count: connections.cut == {"crowding": count})
        await until(lambda: [one.waiting for one in connections.every()] == [False] * ROOM)
    assert not any(reader.at_eof() for reader in (*good, *evil[:-3]))


@pytest.mark.parametrize("caller", ["evil", ""], ids=["who has most", "somebody unknown"])
async def test_others_alone_are_made_room_for(clients: Clients, caller: str) -> None:
    connections = clients.connections
    for _ in range(ROOM):
        await clients.connect(hang("evil"))
    await until(lambda: [one.waiting for one in connections.every()] == [False] * ROOM)
    for _ in range(3):
        refused = await clients.connect(ASK.replace(b"/healthz", f"/ask?{caller}".encode()))
        async with asyncio.timeout(PATIENCE_S):
            said = await refused.read()
        assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert not connections.cut


@pytest.mark.parametrize("path", ["/mcp", "/mcp/up"])
async def test_one_callers_calls_leave_room_for_those_of_others(path: str) -> None:
    lists, running = ServerLists(tools=[tool("say", "says"), tool("wait", "waits")]), 0

    async def answer(call: Call, owner: Owner) -> Reply:
        nonlocal running
        del owner
        if plain(call.params).get("name") == "wait":
            running += 1
            try:
                await asyncio.Event().wait()
            finally:
                running -= 1
        return result({"content": []}, "legacy")

    def called(url: str, who: str, name: str) -> Any:
        params = {"name": name if path == "/mcp/up" else f"up__{name}", "arguments": {}}
        body = modern_body(1, "tools/call", params)
        headers = {**modern_headers(body), "Authorization": f"Bearer {TOKENS[who]}"}
        headers["Accept"] = "application/json, text/event-stream"
        return http.post(f"{url}{path}", json=body, headers=headers)

    async def waits(url: str) -> None:
        with contextlib.suppress(aiohttp.ClientError):
            async with called(url, "evil", "wait"):
                pass

    gateway = Gateway(pool := ScriptedPool({"up": ScriptedUpstream(lists, answer, "legacy")}))
    gateway.publish(pool.catalog())
    checks = Authenticator([StaticToken(*one) for one in TOKENS.items()], allow_anonymous=False)
    connector = aiohttp.TCPConnector(limit=0)
    served = serving(gateway, checks, connections=16)
    async with (
        served as (url, _),
        aiohttp.ClientSession(connector=connector) as http,
        asyncio.timeout(PATIENCE_S),
        asyncio.TaskGroup() as group,
    ):
        calls = [group.create_task(waits(url)) for _ in range(16)]
        await until(lambda: running == 16)
        for _ in range(3):
            async with called(url, "good", "say") as answered:
                assert answered.status == 200
                assert "result" in await answered.json()
        await until(lambda: running == 15)  # what was cut off is called off at the upstream
        for call in calls:
            call.cancel()


async def test_nobody_makes_room_where_nobody_has_more_than_half(clients: Clients) -> None:
    connections = clients.connections
    for number in range(ROOM):
        await clients.connect(hang(("one", "other")[number % 2]))
    await until(lambda: [one.waiting for one in connections.every()] == [False] * ROOM)
    refused = await clients.connect(ASK.replace(b"/healthz", b"/ask?new"))
    async with asyncio.timeout(PATIENCE_S):
        assert (await refused.read()).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert not connections.cut


async def test_who_does_not_send_the_rest_makes_room(clients: Clients) -> None:
    connections = clients.connections
    half = b"POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na"
    slow = [await clients.connect(half) for _ in range(ROOM // 2)]
    for _ in range(ROOM // 2):  # whom the gateway itself makes wait
        await clients.connect(HANG)
    await until(lambda: sum(one.held_up_since is not None for one in connections.every()) == 50)
    await clients.answered()
    async with asyncio.timeout(PATIENCE_S):
        assert (await slow[0].read()).startswith(b"HTTP/1.1 408 ")
    assert connections.cut == {"body": 1}
    assert len(connections) == ROOM


HEAD = b"POST /hang HTTP/1.1\r\nHost: a\r\n"
LINES = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 4_000) for number in range(15))
UNENDED = {
    "headers": HEAD + LINES,
    "bodies": HEAD + b"Content-Length: 70000\r\n\r\n" + b"a" * 60_000,
    "headers of what is not answered": HEAD + LINES + b"\r\n",
    "what comes ahead": (HEAD + b"\r\n") * 1_500,
}


@pytest.mark.parametrize("name", UNENDED)
async def test_what_does_not_end_is_bounded_in_all(clients: Clients, name: str) -> None:
    """Each holds 60 KB, which none of them may hold much of by itself."""
    connections, sent = clients.connections, UNENDED[name]
    for _ in range(ROOM // 2):
        clients.connect_at_once(sent)
    await until(lambda: connections.cut.get("arriving", 0) >= 20)
    assert connections.arriving <= 1 << 20
    await clients.answered()
    clients.leave()
    if name != "what comes ahead":  # nobody reads on there, and so nobody hears of the end
        await until(lambda: not connections.arriving)
