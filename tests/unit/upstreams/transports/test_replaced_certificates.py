"""Certificates and authorities that are replaced while a gateway runs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from yarl import URL

from armory.errors import UpstreamUnavailable
from armory.oauth.exchange import NoAnswer, exchange
from armory.testing.certificates import certificate
from armory.upstreams.oauth.client import NoToken
from armory.upstreams.oauth.grants import ClientCredentials
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import UpstreamClient
from tests.tunnel import tunnelling

pytestmark = pytest.mark.anyio
BODY = b'{"access_token": "t", "token_type": "Bearer"}'


async def served(folder: Path, port: int) -> asyncio.Server:
    """A server with a certificate of its own, which `folder / "cert.pem"` holds."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate(folder))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
        writer.write(head + BODY)
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)


@pytest.fixture
async def tunnel() -> AsyncIterator[str]:
    async with tunnelling() as url:
        yield url


@pytest.mark.parametrize("proxied", [False, True])
async def test_an_authority_that_takes_anothers_place_in_the_file_is_trusted(
    tmp_path: Path, tunnel: str, proxied: bool
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    trusted = tmp_path / "authorities.pem"
    server = await served(before, 0)
    port = server.sockets[0].getsockname()[1]
    trusted.write_bytes((before / "cert.pem").read_bytes())
    url = f"https://127.0.0.1:{port}/mcp"
    proxy = tunnel if proxied else None
    client = UpstreamClient(UpstreamSpec("up", url=url, ca_file=str(trusted), proxy=proxy))
    try:
        async with asyncio.timeout(60):
            response = await client.send("GET", {}, None, 10)
            assert await response.read() == BODY
            server.close()
            server = await served(after, port)
            said = r"not trusted \(self-signed certificate\); see upstreams\.up\.tls"
            with pytest.raises(UpstreamUnavailable, match=said):
                await client.send("GET", {}, None, 10)
            trusted.write_bytes((after / "cert.pem").read_bytes())
            with pytest.raises(UpstreamUnavailable, match="not trusted"):
                await client.send("GET", {}, None, 10)  # it is looked at again by this
            response = await client.send("GET", {}, None, 10)
            assert await response.read() == BODY
    finally:
        await client.close()
        server.close()
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.mark.parametrize("proxied", [False, True])
async def test_another_file_of_the_environment_is_trusted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tunnel: str, proxied: bool
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    trusted = tmp_path / "all.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    server = await served(before, 0)
    port = server.sockets[0].getsockname()[1]
    trusted.write_bytes((before / "cert.pem").read_bytes())
    url = f"https://127.0.0.1:{port}/mcp"
    client = UpstreamClient(UpstreamSpec("up", url=url, proxy=tunnel if proxied else None))
    try:
        async with asyncio.timeout(60):
            response = await client.send("GET", {}, None, 10)
            assert await response.read() == BODY
            assert (await exchange("GET", url)).body == BODY
            server.close()
            server = await served(after, port)
            with pytest.raises(UpstreamUnavailable, match="not trusted"):
                await client.send("GET", {}, None, 10)
            with pytest.raises(NoAnswer, match="not trusted"):
                await exchange("GET", url)
            trusted.write_bytes((after / "cert.pem").read_bytes())
            response = await client.send("GET", {}, None, 10)
            assert await response.read() == BODY
            assert (await exchange("GET", url)).body == BODY
    finally:
        await client.close()
        server.close()
        for _ in range(3):
            await asyncio.sleep(0)


async def test_whoever_gives_out_tokens_is_trusted_by_the_file_as_it_is_now(
    tmp_path: Path,
) -> None:
    (tmp_path / "before").mkdir()
    trusted = tmp_path / "authorities.pem"
    trusted.write_bytes(certificate(tmp_path / "before")[0].read_bytes())
    server = await served(tmp_path, 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    auth = ClientCredentials("armory", "secret", token_url=f"{url}/token")
    client = UpstreamClient(UpstreamSpec("up", url=f"{url}/mcp", ca_file=str(trusted), auth=auth))
    try:
        async with asyncio.timeout(60):
            assert client.tokens is not None
            with pytest.raises(NoToken):
                await client.tokens.current(URL(url))
            trusted.write_bytes((tmp_path / "cert.pem").read_bytes())
            with pytest.raises(NoToken):
                await client.tokens.current(URL(url))  # it is looked at again by this
            assert await client.tokens.current(URL(url)) == "t"
    finally:
        await client.close()
        server.close()
        for _ in range(3):
            await asyncio.sleep(0)
