"""One client that does not read what it is answered, over connections that carry all its answers.

Bounded: how far its standard input is read, requests of one connection at a time, bytes of answers
that wait.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol import codes
from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import modern_body
from armory.testing.front import ScriptedPool, ScriptedUpstream, plain, result, serving, tool
from armory.testing.serving import listen
from armory.testing.waiting import until
from armory.web.app import make_app
from armory.web.binding import bind
from armory.web.settings import ListenSettings
from armory.wire.duplex import in_flight
from armory.wire.http.answers import tell_held
from armory.wire.settings import StdioSettings
from armory.wire.stdio import serve_stdio

pytestmark = pytest.mark.anyio
LARGE = "x" * (1 << 20)


class Upstream:
    """Says something large; `wait` once it may `go`."""

    def __init__(self) -> None:
        self.waiting = 0
        self.go = asyncio.Event()

    async def answer(self, call: Call, _owner: Owner) -> Reply:
        if plain(call.params).get("name") == "wait":
            self.waiting += 1
            await self.go.wait()
            return result({"content": []}, "legacy")
        return result({"content": [{"type": "text", "text": LARGE}]}, "legacy")


@pytest.fixture
async def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
async def gateway(upstream: Upstream) -> Gateway:
    lists = ServerLists(tools=[tool(name, name) for name in ("say", "wait")])
    pool = ScriptedPool({"up": ScriptedUpstream(lists, upstream.answer, "legacy")})
    found = Gateway(pool)
    found.publish(pool.catalog())
    return found


class Pipes:
    """The client's ends of a stdio connection; what it sends waits here where nobody takes it."""

    def __init__(self, writing: asyncio.WriteTransport, answers: int, serving: Any) -> None:
        self.writing = writing
        self.answers = answers
        self.serving: asyncio.Future[None] = serving

    def send(self, *messages: Any) -> None:
        self.writing.write(b"".join(msgspec.json.encode(one) + b"\n" for one in messages))

    async def stuck(self) -> None:
        """Wait until nobody takes any more of it."""
        seen = [-1] * 100

        def still() -> bool:
            seen.append(self.writing.get_write_buffer_size())
            return len(set(seen[-100:])) == 1

        await until(still)

    async def read(self, count: int) -> list[Any]:
        """So many answers."""
        reader = asyncio.StreamReader(limit=1 << 22)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(self.answers), "rb")
        )
        try:
            async with asyncio.timeout(30):
                return [msgspec.json.decode(await reader.readline()) for _ in range(count)]
        finally:
            transport.close()


@asynccontextmanager
async def stdio(gateway: Gateway) -> AsyncGenerator[Pipes]:
    to_server, from_client = os.pipe()
    from_server, to_client = os.pipe()
    loop = asyncio.get_running_loop()
    writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(from_client, "wb"))
    settings = StdioSettings(line_bytes=1 << 16, drain_timeout_s=5.0)
    with os.fdopen(to_client, "wb") as stdout:
        served = serve_stdio(
            gateway, settings=settings, stdin=os.fdopen(to_server, "rb"), stdout=stdout
        )
        serving = asyncio.ensure_future(served)
        try:
            yield Pipes(writing, from_server, serving)
        finally:
            serving.cancel()
            writing.abort()
            async with asyncio.timeout(15):
                await asyncio.wait((serving,))
            os.close(from_server)  # the thread that writes comes back


def under_way() -> int:
    return sum(task.get_name() == "request of a client" for task in asyncio.all_tasks())


async def test_who_reads_no_answers_is_read_no_further(gateway: Gateway) -> None:
    count = 20_000
    async with stdio(gateway) as client:
        client.send(*({"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(count)))
        await client.stuck()
        assert client.writing.get_write_buffer_size() > 0
        assert under_way() < 100
        assert {one["id"] for one in await client.read(count)} == set(range(count))


async def test_requests_of_one_connection_at_a_time(
    gateway: Gateway, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "_AT_ONCE", 2)
    async with stdio(gateway) as client:
        wait = {"name": "up__wait", "arguments": {}}
        client.send(*(modern_body(n, "tools/call", wait) for n in (1, 1)))  # by one id, too
        await until(lambda: upstream.waiting == 2)
        client.send(modern_body(3, "tools/call", wait))
        (refused,) = await client.read(1)
        assert refused["id"] == 3
        assert refused["error"]["code"] == codes.LIMITED
        assert "more than 2 requests at a time" in refused["error"]["message"]
        upstream.go.set()
        assert [one["id"] for one in await client.read(2)] == [1, 1]


@pytest.mark.parametrize("transport", ["stdio", "sse"])
async def test_bytes_of_answers_that_wait(
    gateway: Gateway, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "_HELD_BYTES", 4 * len(LARGE))
    count = 40
    calls = [modern_body(n, "tools/call", {"name": "up__say"}) for n in range(count)]
    if transport == "stdio":
        async with stdio(gateway) as client:
            client.send(*calls)
            await client.stuck()
            answers = await client.read(count)
    else:
        answers = await over_sse(gateway, calls)
    assert {one["id"] for one in answers} == set(range(count))
    refused = [one["error"] for one in answers if "error" in one]
    assert 0 < len(refused) < count - 2
    assert {one["code"] for one in refused} == {codes.LIMITED}
    assert all("bytes of answers wait to be read" in one["message"] for one in refused)


async def over_sse(gateway: Gateway, calls: list[Any]) -> list[Any]:
    """What is answered on a stream that is read once everything has been asked."""
    async with AsyncExitStack() as stack:
        url, _edge = await stack.enter_async_context(serving(gateway))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        host, port = url.removeprefix("http://").split(":")
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, (host, int(port)))
        reader, writer = await asyncio.open_connection(sock=narrow, limit=8_192)
        stack.callback(writer.transport.abort)
        writer.write(f"GET /sse HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        said = events(reader)
        async with asyncio.timeout(30):
            await reader.readuntil(b"\r\n\r\n")
            path = (await anext(said)).decode()
            for call in calls:
                async with http.post(url + path, json=call) as taken:
                    assert taken.status == 202
            await until(lambda: under_way() < len(calls) // 2)  # the refused have been answered
            return [msgspec.json.decode(await anext(said)) for _ in calls]


async def events(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """The data of each event of a stream, whose chunks are put together."""
    data = b""
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        data += (await reader.readexactly(size + 2))[:-2]
        while (end := data.find(b"\n\n")) >= 0:
            event, data = data[:end], data[end + 2 :]
            if b"data: " in event:
                yield event.split(b"data: ", 1)[1]


async def test_what_waits_for_a_stream_that_nobody_reads_counts() -> None:
    begun: list[web.Request] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        request.protocol.caller = str(len(begun))  # type: ignore[attr-defined]  # as `Admission`
        begun.append(request)
        while True:
            await response.write(LARGE.encode())

    app = make_app(body_bytes=1 << 20)
    app.router.add_get("/", stream)
    limits = ListenSettings(unread_bytes=40 * len(LARGE), drain_timeout_s=0.1)
    async with AsyncExitStack() as stack:
        listening = await listen(app, bind("127.0.0.1", 0), settings=limits)
        stack.push_async_callback(listening.close)
        pipes: list[Any] = []  # whose connections end when nobody holds them
        for _ in range(2):
            pipes.append(await asyncio.open_connection("127.0.0.1", listening.port, limit=4096))
            reader, writer = pipes[-1]
            stack.callback(writer.transport.abort)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readline()
        every = listening.connections.every
        await until(lambda: [one.stalled is not None for one in every()] == [True, True])
        before = listening.connections.unread
        tell_held(begun[0], len(LARGE))
        assert listening.connections.unread == before + len(LARGE)
        tell_held(begun[0], 0)
        assert listening.connections.unread == before
        tell_held(begun[1], 50 * len(LARGE))
        await until(lambda: listening.connections.cut.get("unread", 0) == 1)
        assert [one.caller for one in every()] == ["0"]
