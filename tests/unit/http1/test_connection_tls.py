"""The lean client over TLS, where bytes reach it in another way."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from armory.http1.pool import Connections
from armory.testing.certificates import certificate

pytestmark = pytest.mark.anyio
BIG = bytes(range(256)) * 4_096  # one mebibyte


async def test_small_and_large_answers_on_one_connection(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    connections_seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections_seen
        connections_seen += 1
        try:
            for body in (b"{}", BIG, BIG, b"[]"):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    url = URL(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    connections = Connections(ssl.create_default_context(cafile=str(cert)), 5.0, 4.0)
    try:
        for expected in (b"{}", BIG, BIG, b"[]"):
            response = await connections.request("POST", url, {}, b"", 10)
            assert await response.read() == expected
    finally:
        connections.close()
        server.close()
        for _ in range(3):
            await asyncio.sleep(0)
    assert connections_seen == 1


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_who_leaves_while_it_connects_leaves_nothing_behind(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    url = URL(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    connections = Connections(ssl.create_default_context(cafile=str(cert)), 60.0, 4.0)
    try:
        for turns in range(30):  # somewhere between the look-up of the name and the answer
            leaving = asyncio.create_task(connections.request("POST", url, {}, b"", 60.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.wait((leaving,))
            # its socket's number is free now, and the next one's
            response = await connections.request("POST", url, {}, b"", 60.0)
            assert await response.read() == b"{}"
            response.close()
    finally:
        connections.close()
        server.close()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_server_is_asked_for_by_its_name_without_the_dot_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate(tmp_path))
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    loop = asyncio.get_running_loop()
    usual = loop.getaddrinfo
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:

        async def getaddrinfo(_host: str, *args: Any, **more: Any) -> list[Any]:
            return [*await usual("127.0.0.1", *args, **more)]

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        url = URL(f"https://up.test.:{server.sockets[0].getsockname()[1]}/")
        connections = Connections(False, 5.0, 4.0)
        response = await connections.request("GET", url, {}, None, 10)
        await response.read()
        connections.close()
    assert names == ["up.test"]
