"""As `test_cycles.py`, of sessions with upstreams."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import pytest
from msgspec import Raw
from yarl import URL

from armory.domain.principal import INTERNAL
from armory.errors import UpstreamUnavailable
from armory.http1.connection import Connection as UpstreamConnection
from armory.http1.pool import Connections
from armory.http1.response import ClosedEarly
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingObserver
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.upstreams.clock import SystemClock
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.start_turns import StartTurns
from armory.upstreams.link_pool import LinkPool
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import LinkContext
from armory.upstreams.session.handshake import initialize
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink
from tests.garbage import Gone, there_are

pytestmark = pytest.mark.anyio
LEGACY = "2025-11-25"


async def test_a_connection_to_an_upstream_leaves_nothing(gone: Gone) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    connections = Connections(True, 5.0, 4.0)
    try:
        with suppress(ClosedEarly):
            await connections.request("GET", url, {}, None, 5.0)
        await gone(UpstreamConnection)
    finally:
        connections.close()
        server.close()


async def test_an_error_of_a_session_that_was_not_opened_leaves_nothing(gone: Gone) -> None:
    spec = UpstreamSpec("up", command="no-such-program-anywhere")
    connector = Connector(spec, {"name": "test", "version": "0"})
    pool = LinkPool(spec, connector, RecordingObserver(), SystemClock(), StartTurns())
    with suppress(UpstreamUnavailable):
        await pool.opened(Owner(INTERNAL), {})
    await gone(UpstreamUnavailable)
    await pool.close()


@pytest.mark.parametrize("kind", ["modern", "legacy", "sse"])
async def test_a_session_with_an_upstream_leaves_nothing(gone: Gone, kind: str) -> None:
    async with HttpUpstream(Script(), "" if kind == "sse" else kind) as upstream:
        spec = UpstreamSpec("up", url=upstream.sse_url if kind == "sse" else upstream.url)
        connector = Connector(spec, {"name": "test", "version": "0"})
        pool = LinkPool(spec, connector, RecordingObserver(), SystemClock(), StartTurns())
        await pool.opened(Owner(INTERNAL), {})
        assert there_are(BaseLink)
        await pool.close()
        del pool, connector
        await gone(BaseLink)
        await gone(LinkPool)


async def test_a_process_that_crashed_leaves_nothing(gone: Gone) -> None:
    args = ("-m", "armory.testing.upstreams.stdio", "--era", "legacy")
    env = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    spec = UpstreamSpec("up", command=sys.executable, args=args, env=env)
    link = StdioLink(LinkContext(spec, {"name": "test", "version": "0"}, RecordingObserver()))
    await link.open()
    link.adopt(await initialize(link, LEGACY, {}))
    with suppress(UpstreamUnavailable):
        await link.request(Call("tools/call", {"name": Raw(b'"crash"')}))
    await link.close()
    del link
    await gone(StdioLink)
