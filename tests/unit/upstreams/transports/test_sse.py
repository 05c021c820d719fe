"""An HTTP+SSE upstream whose endpoint is none."""

from __future__ import annotations

import asyncio

import pytest

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingObserver
from armory.upstreams.connecting.negotiate import Connector
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
