"""What ends is gone with its last reference: nothing of it waits for the garbage collector, which
goes through everything, with everybody waiting, and here does that seldom.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.gateway.settings import GatewaySettings
from armory.protocol import codes
from armory.protocol.errors import RpcError
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.upstream_messages import UnreadableMessage, decode
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    WordRetriever,
    plain,
    result,
    serving,
    tool,
)
from armory.testing.waiting import until
from armory.web.connections.connection import Connection
from armory.wire.interaction.parked import ParkedCall
from armory.wire.sessions.session import Session
from armory.wire.streams import EventStream
from tests.garbage import Gone, there_are

pytestmark = pytest.mark.anyio
LEGACY = "2025-11-25"
JSON_TYPES = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


LARGE = 16 << 20


class Front:
    """A gateway whose tool `hold` does not answer, and whose tool `large` does so at length."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.port = 0
        names = ("hold", "echo", "large", "fail")
        lists = ServerLists(tools=[tool(name, name) for name in names])
        self.pool = ScriptedPool({"up": ScriptedUpstream(lists, self.answer, "modern")})

    async def answer(self, call: Call, owner: Owner) -> Reply:
        del owner
        self.pool.calls.clear()  # which would hold whom they are for
        match plain(call.params).get("name"):
            case "hold":
                self.begun.set()
                await asyncio.Event().wait()
            case "large":
                content = [{"type": "text", "text": "x" * LARGE}]
                return result({"resultType": "complete", "content": content}, "modern")
            case "fail":
                raise RpcError(codes.INTERNAL_ERROR, "it fails")
            case _:
                pass
        return result({"resultType": "complete", "content": []}, "modern")

    async def open(
        self, message: dict[str, Any], headers: dict[str, str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.send(writer, message, headers)
        return reader, writer

    def send(
        self, writer: asyncio.StreamWriter, message: dict[str, Any], headers: dict[str, str]
    ) -> None:
        body = json.dumps(message).encode()
        fields = {"Host": "localhost", "Content-Length": str(len(body)), **JSON_TYPES, **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)


async def answered(reader: asyncio.StreamReader) -> dict[str, str]:
    """The headers of an answer that has been read."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lines = (line.partition(":") for line in head.splitlines()[1:])
    headers = {name.lower(): value.strip() for name, _, value in lines}
    await reader.readexactly(int(headers.get("content-length", 0)))
    return headers


@pytest.fixture
async def front(request: pytest.FixtureRequest) -> AsyncGenerator[Front]:
    found = Front()
    gateway = Gateway(found.pool, WordRetriever(), settings=getattr(request, "param", None))
    gateway.publish(found.pool.catalog())
    async with serving(gateway) as (url, _):
        found.port = int(url.rpartition(":")[2])
        yield found


async def test_a_client_that_was_answered_leaves_nothing(front: Front, gone: Gone) -> None:
    body = modern_body(1, "tools/call", {"name": "up__echo", "arguments": {}})
    reader, writer = await front.open(body, modern_headers(body))
    await answered(reader)
    writer.close()
    await gone(Connection)


async def test_a_client_that_leaves_in_mid_call_leaves_nothing(front: Front, gone: Gone) -> None:
    body = modern_body(1, "tools/call", {"name": "up__hold", "arguments": {}})
    _, writer = await front.open(body, modern_headers(body))
    await asyncio.wait_for(front.begun.wait(), 30)
    writer.transport.abort()
    await gone(Connection)


async def narrow(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that takes little where its client does not read."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=made, limit=4096)


def stuck() -> bool:
    """Whether an answer waits for a client that does not read."""
    return any(type(o) is Connection and o.writing_paused for o in gc.get_objects())


async def test_a_client_that_leaves_without_reading_an_answer_leaves_nothing(
    front: Front, gone: Gone
) -> None:
    body = modern_body(1, "tools/call", {"name": "up__large", "arguments": {}})
    _, writer = await narrow(front.port)
    front.send(writer, body, modern_headers(body))
    await until(stuck)
    writer.transport.abort()
    await gone(Connection)


async def test_a_client_that_leaves_an_event_stream_unread_leaves_nothing(
    front: Front, gone: Gone
) -> None:
    reader, writer = await narrow(front.port)
    writer.write(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
    line = b""
    while not line.startswith(b"data: "):
        line = await asyncio.wait_for(reader.readline(), 30)
    path = line.removeprefix(b"data: ").strip().decode()
    call = {"name": "up__large", "arguments": {}}
    async with aiohttp.ClientSession() as client:
        for id in range(3):
            said = modern_body(id, "tools/call", call)
            async with client.post(f"http://127.0.0.1:{front.port}{path}", json=said) as accepted:
                assert accepted.status == 202
    await until(stuck)
    writer.transport.abort()
    await gone(EventStream)
    await gone(Connection)


async def test_a_client_that_listened_leaves_nothing(front: Front, gone: Gone) -> None:
    body = modern_body(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    reader, writer = await front.open(body, modern_headers(body))
    await asyncio.wait_for(reader.readuntil(b"acknowledged"), 30)
    writer.transport.abort()
    await gone(EventStream)


@pytest.mark.parametrize("name", ["hold", "fail"])
async def test_a_client_that_may_be_asked_leaves_nothing(
    front: Front, gone: Gone, name: str
) -> None:
    call = {"name": f"up__{name}", "arguments": {}}
    body = modern_body(1, "tools/call", call, capabilities={"elicitation": {"form": {}}})
    reader, writer = await front.open(body, modern_headers(body))
    if name == "hold":
        await asyncio.wait_for(front.begun.wait(), 30)
    else:
        await answered(reader)
    writer.transport.abort()
    await gone(ParkedCall)
    await gone(Connection)


REFUSED = {
    "no HTTP": b"x\r\n\r\n",
    "a header without an end": b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 400_000,
    "no such path": b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no such method": b"PUT /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    "no JSON": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nContent-Length: 1\r\n\r\n{",
    "no gzip": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Encoding: gzip\r\nContent-Length: 7\r\n\r\nno gzip",
    "no coding that is known": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\n{",
}


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
async def test_a_request_that_is_refused_leaves_nothing(
    front: Front, gone: Gone, request_: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(request_)
    status = await asyncio.wait_for(reader.readline(), 30)
    assert status.split()[1].startswith(b"4")
    writer.transport.abort()
    await gone(Connection)


@pytest.mark.parametrize("line", [b"no JSON", b"[1]", b'{"id":' + b"[" * 2_000, b"\xff"])
def test_a_line_that_is_no_message_leaves_nothing(line: bytes) -> None:
    with suppress(UnreadableMessage):
        decode(line)
    gc.collect()
    gc.disable()
    left: list[int] = []
    try:
        for _ in range(5):  # what other threads leave, or other tests' finalizers, is not in each
            with suppress(UnreadableMessage):
                decode(line)
            left.append(gc.collect())
            if not left[-1]:
                break
        assert left[-1] == 0, left
    finally:
        gc.enable()


async def test_a_session_that_ends_in_mid_call_leaves_nothing(front: Front, gone: Gone) -> None:
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    reader, writer = await front.open(message, {})
    session = (await answered(reader))["mcp-session-id"]
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
    call = {"name": "up__hold", "arguments": {}}
    front.send(writer, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, headers)
    await asyncio.wait_for(front.begun.wait(), 30)
    writer.transport.abort()
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    head = "".join(
        f"{name}: {value}\r\n" for name, value in {"Host": "localhost", **headers}.items()
    )
    writer.write(f"DELETE /mcp HTTP/1.1\r\n{head}\r\n".encode())
    await answered(reader)
    writer.close()
    await gone(Connection)
    await gone(Session)


@pytest.mark.parametrize("front", [GatewaySettings(personal={"up": "always"})], indirect=True)
async def test_a_session_whose_principal_has_lists_to_itself_leaves_nothing(
    front: Front, gone: Gone
) -> None:
    """They are kept for its principal, which comes again; not how to reach this client."""
    params = {"protocolVersion": LEGACY, "capabilities": {"roots": {}}, "clientInfo": {"name": "x"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    reader, writer = await front.open(message, {})
    session = (await answered(reader))["mcp-session-id"]
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
    front.send(writer, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers)
    await answered(reader)
    assert there_are(Session)
    head = "".join(
        f"{name}: {value}\r\n" for name, value in {"Host": "localhost", **headers}.items()
    )
    writer.write(f"DELETE /mcp HTTP/1.1\r\n{head}\r\n".encode())
    await answered(reader)
    writer.close()
    await gone(Connection)
    await gone(Session)
