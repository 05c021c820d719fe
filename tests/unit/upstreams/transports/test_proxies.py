"""An upstream that is reached through a proxy, whose client is loaded when it is first needed."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingObserver
from armory.testing.upstreams.http import HttpUpstream
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import UpstreamClient

NOWHERE = "http://127.0.0.1:1"
Begin = Callable[[bytes | None], Awaitable[str]]
PROGRAM = """
import sys
import armory.upstreams.transports.http_client
from armory.http1.failing import broken
print("aiohttp" in sys.modules, broken() == (OSError,))
import aiohttp
print(broken() == (aiohttp.ClientError, OSError))
"""


@pytest.mark.anyio
async def test_a_proxy_is_used_and_one_that_is_away_is_an_upstream_that_is_away() -> None:
    async with HttpUpstream() as server:
        # asked with the whole URL, as a proxy is, it answers like the server itself
        through = Connector(UpstreamSpec("up", url=server.url, proxy=server.url), {})
        link = await through.connect(Owner(ANONYMOUS), {}, RecordingObserver())
        assert link.era == "modern"
        await link.close()
        await through.close()
        away = Connector(UpstreamSpec("up", url=server.url, proxy=NOWHERE), {})
        with pytest.raises(UpstreamUnavailable, match=r"no connection to the proxy .* http://127"):
            await away.connect(Owner(ANONYMOUS), {}, RecordingObserver())
        await away.close()


def test_aiohttp_is_loaded_for_proxies_alone_and_its_errors_are_caught_from_then_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "True", "True"]


@pytest.fixture
async def proxy() -> AsyncIterator[Begin]:
    """Proxies that give one answer to whatever they are asked; with None: none."""
    servers: list[asyncio.Server] = []

    async def begin(answer: bytes | None) -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
            writer.close()

        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        return f"http://ann:hunter22@127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}"

    yield begin
    for server in servers:
        server.close()


async def _asked(proxy: str, connect_timeout_s: float = 15.0) -> str:
    spec = UpstreamSpec(
        "up", url="https://up.invalid/mcp", proxy=proxy, connect_timeout_s=connect_timeout_s
    )
    client = UpstreamClient(spec)
    try:
        with pytest.raises(UpstreamUnavailable) as raised:
            await client.send("POST", {}, b"{}", 60.0)
    finally:
        await client.close()
    return str(raised.value)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 407 Authentication Required\r\nContent-Length: 0\r\n\r\n", "HTTP 407"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "HTTP 403"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "ClientResponseError"),
        (b"", "without an answer"),
    ],
)
async def test_what_a_proxy_refuses_is_told_without_its_password(
    proxy: Begin, answer: bytes, says: str
) -> None:
    said = await _asked(await proxy(answer))
    assert says in said
    assert "up.invalid:443" in said
    assert "hunter22" not in said


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("through", "says"),
    [
        ("http://ann:hunter22@127.0.0.1:1", r"127\.0\.0\.1:1 \(Connection refused\)"),
        ("http://ann:hunter22@proxy.invalid:3128", r"proxy\.invalid:3128 \(.+\)"),
    ],
)
async def test_a_proxy_that_cannot_be_reached_is_named(through: str, says: str) -> None:
    said = await _asked(through)
    told = r"no connection to the proxy on the way to https://up\.invalid:443, "
    assert re.search(told + says, said)
    assert "hunter22" not in said


@pytest.mark.anyio
async def test_a_header_that_says_who_asks_counts_before_a_name_in_the_url(proxy: Begin) -> None:
    through = await proxy(b"HTTP/1.1 204 No Content\r\n\r\n")
    client = UpstreamClient(UpstreamSpec("up", url="http://ann:pw@up.invalid/mcp", proxy=through))
    response = await client.send("POST", {"Authorization": "Bearer x"}, b"{}", 60.0)
    assert response.status == 204
    response.close()
    await client.close()


@pytest.mark.anyio
async def test_a_proxy_that_does_not_answer_takes_no_longer_than_connecting_may(
    proxy: Begin,
) -> None:
    said = await asyncio.wait_for(_asked(await proxy(None), connect_timeout_s=0.2), 30)
    assert "no connection to https://up.invalid:443 (not within 0.2 s)" in said
