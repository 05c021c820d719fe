"""An HTTP+SSE upstream whose endpoint is none, or that forgets a session."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.recording import RecordingObserver
from armory.testing.upstreams.http import HttpUpstream
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("mailto:a@b", "is no URL"),
        ("http://[::1", "is no URL"),
        ("http://elsewhere.invalid/messages", "on another origin"),
        (f"http://elsewhere.invalid/{'a' * 8_000}", "on another origin"),
        (f"http://{'ü' * 100_000}/", "its endpoint has 200,008 bytes"),
    ],
)
async def test_it_is_told_what_is_wrong_with_it(endpoint: str, says: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
        writer.write(head + f"event: endpoint\ndata: {endpoint}\n\n".encode())
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
    connector = Connector(UpstreamSpec("up", url=url, transport="sse"), {})
    try:
        with pytest.raises(UpstreamUnavailable, match=says) as told:
            await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
        assert len(str(told.value)) < 500
    finally:
        await connector.close()
        server.close()


async def test_it_is_told_also_where_streamable_http_was_tried_first() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: http://elsewhere.invalid/messages\n\n")
            await reader.read()
        else:
            writer.write(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
    connector = Connector(UpstreamSpec("up", url=url), {})
    try:
        with pytest.raises(UpstreamUnavailable, match=r"HTTP 405; over HTTP.SSE: .*another origin"):
            await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
    finally:
        await connector.close()
        server.close()


async def test_a_session_that_it_has_forgotten_gives_way_to_another() -> None:
    echo = {"name": Raw(b'"echo"')}
    async with HttpUpstream(eras="") as server:
        pool = Pool([UpstreamSpec("up", url=server.sse_url)])
        ann = Owner(Principal("ann"))
        try:
            async with asyncio.timeout(30):
                assert (await pool.request("up", ann, Call("tools/call", echo))).error is None
                server.inboxes.forget()
                assert (await pool.request("up", ann, Call("tools/call", echo))).error is None
            assert server.script.received[-1]["params"]["name"] == "echo"
            assert len(server.inboxes.streams()) == 1
        finally:
            await pool.close()


async def test_what_is_in_flight_in_a_forgotten_session_is_waited_for() -> None:
    async with HttpUpstream(eras="") as server:
        pool = Pool([UpstreamSpec("up", url=server.sse_url)])
        ann = Owner(Principal("ann"))

        def called(tool: str) -> Coroutine[Any, Any, Reply]:
            return pool.request(
                "up", ann, Call("tools/call", {"name": Raw(b'"%b"' % tool.encode())})
            )

        try:
            async with asyncio.timeout(30):
                waiting = asyncio.create_task(called("wait"))
                await server.script.started.wait()
                server.inboxes.forget()
                with pytest.raises(UpstreamUnavailable, match="HTTP 404"):
                    await called("echo")
                server.script.release.set()
                assert (await waiting).error is None
                assert (await called("echo")).error is None
        finally:
            await pool.close()
