"""A client that leaves in the middle of an answer, and whose session ends: nothing of them waits
for the garbage collector.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    WordRetriever,
    plain,
    raws,
    result,
    serving,
    tool,
)
from armory.testing.waiting import until
from armory.web.connections.connection import Connection
from armory.wire.sessions.session import Session
from armory.wire.streams import EventStream
from tests.garbage import Gone, none_collected

pytestmark = pytest.mark.anyio
HEADERS = {
    "Host": "localhost",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
CLIENT = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "test", "version": "0"}}
LARGE = 16 << 20


@pytest.fixture
def gone() -> Generator[Gone]:
    with none_collected() as waiting:
        yield waiting


@pytest.fixture
def left() -> asyncio.Event:
    """Set once the client of `tells` has left."""
    return asyncio.Event()


@pytest.fixture
async def port(left: asyncio.Event) -> AsyncGenerator[int]:
    """A gateway whose tool `tells` streams what nobody reads; `asks` asks for roots."""
    pool = ScriptedPool()

    async def answer(call: Call, owner: Owner) -> Reply:
        del owner
        pool.calls.clear()  # which would hold whom they are for
        if plain(call.params)["name"] == "asks":
            asked = {"a": {"method": "roots/list", "params": {}}}
            return result({"resultType": "input_required", "inputRequests": asked}, "modern")
        assert call.client is not None
        await call.client.notify("notifications/message", raws({"level": "error", "data": 1}))
        await asyncio.wait_for(left.wait(), 30)
        await call.client.notify("notifications/message", raws({"level": "error", "data": 2}))
        return result({"resultType": "complete", "content": []}, "modern")

    lists = ServerLists(tools=[tool("tells", "tells"), tool("asks", "asks")])
    pool.upstreams["up"] = ScriptedUpstream(lists, answer, "modern")
    gateway = Gateway(pool, WordRetriever())
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, _):
        yield int(url.rpartition(":")[2])


class Client:
    """Sends each request on a connection of its own, which takes little while it is not read."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._headers = HEADERS

    async def send(
        self, method: str, message: dict[str, Any] | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=made, limit=4096)
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        fields = {**self._headers, "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"{method} /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        return reader, writer

    async def begin(self) -> None:
        params = {**CLIENT, "capabilities": {"roots": {}}}
        reader, writer = await self.send(
            "POST", {"id": 0, "method": "initialize", "params": params}
        )
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)).decode().lower()
        session = head.partition("mcp-session-id:")[2].split()[0]
        self._headers = {**HEADERS, "Mcp-Session-Id": session}
        writer.transport.abort()

    async def call(self, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        params = {"name": f"up__{name}", "arguments": {}}
        return await self.send("POST", {"id": 1, "method": "tools/call", "params": params})

    async def end(self) -> None:
        reader, writer = await self.send("DELETE")
        assert b" 204 " in await asyncio.wait_for(reader.readline(), 30)
        writer.transport.abort()


def unheard() -> bool:
    """Whether a connection is not read meanwhile."""
    return any(type(o) is Connection and o.unheard for o in gc.get_objects())


async def test_an_event_stream_that_was_left_unseen(
    port: int, left: asyncio.Event, gone: Gone
) -> None:
    client = Client(port)
    await client.begin()
    reader, writer = await client.call("tells")
    await asyncio.wait_for(reader.readuntil(b"notifications/message"), 30)
    writer.write(b" " * LARGE)  # of the next request: until it is read nobody sees that it left
    await until(unheard)
    writer.transport.abort()
    await asyncio.sleep(0)
    left.set()
    await gone(Connection)
    await client.end()
    await gone(Session)
    await gone(EventStream)


async def test_a_question_that_is_left_open(port: int, gone: Gone) -> None:
    client = Client(port)
    await client.begin()
    reader, writer = await client.call("asks")
    await asyncio.wait_for(reader.readuntil(b"roots/list"), 30)
    writer.transport.abort()
    await client.end()
    await gone(Session)
    await gone(EventStream)
    await gone(Connection)
