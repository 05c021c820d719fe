"""Certificates and authorities that are replaced while a gateway runs."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from armory.errors import UpstreamUnavailable
from armory.testing.certificates import certificate
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import HttpClient

pytestmark = pytest.mark.anyio


async def served(folder: Path, port: int) -> asyncio.Server:
    """A server with a certificate of its own, which `folder / "cert.pem"` holds."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate(folder))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)


async def test_an_authority_that_takes_anothers_place_in_the_file_is_trusted(
    tmp_path: Path,
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    trusted = tmp_path / "authorities.pem"
    server = await served(before, 0)
    port = server.sockets[0].getsockname()[1]
    trusted.write_bytes((before / "cert.pem").read_bytes())
    url = f"https://127.0.0.1:{port}/mcp"
    client = HttpClient(UpstreamSpec("up", url=url, ca_file=str(trusted)))
    try:
        async with asyncio.timeout(60):
            response = await client.send("GET", {}, None, 10)
            assert await response.read() == b"{}"
            server.close()
            server = await served(after, port)
            with pytest.raises(UpstreamUnavailable, match="not trusted"):
                await client.send("GET", {}, None, 10)
            trusted.write_bytes((after / "cert.pem").read_bytes())
            with pytest.raises(UpstreamUnavailable, match="not trusted"):
                await client.send("GET", {}, None, 10)  # it is looked at again by this
            response = await client.send("GET", {}, None, 10)
            assert await response.read() == b"{}"
    finally:
        await client.close()
        server.close()
        for _ in range(3):
            await asyncio.sleep(0)
