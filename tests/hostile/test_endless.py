"""Upstreams whose answers have no end, or come in pieces of a byte.

Bounded: how much of an answer is parsed or unpacked in one round of the event loop, how many
answers may come before the one that counts.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from yarl import URL

from armory.http1.pool import Connections
from armory.http1.response import BadAnswer, ClosedEarly, Response
from armory.testing.certificates import certificate
from armory.testing.waiting import until
from tests.unit.http1.peer import OK, peer, saying, whole

pytestmark = pytest.mark.anyio
SIZE = 100_000
BODY = bytes(range(250)) * (SIZE // 250)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TINY = CHUNKED + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ROUND = 3_000
"""Chunks that are parsed in a round, generously."""
LOOPS = pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
    ids=["uvloop", "asyncio"],
)


def arrived(response: Response) -> int:
    return response._size  # pyright: ignore[reportPrivateUsage]


async def most_in_a_round(response: Response) -> int:
    """Of a response that nobody reads: the most that came in one round of the event loop."""
    most = before = arrived(response)
    async with asyncio.timeout(60):
        while not response.closed:
            await asyncio.sleep(0)
            now = arrived(response)
            most, before = max(most, now - before), now
    return most


@LOOPS
async def test_chunks_of_a_byte_leave_the_loop_to_others() -> None:
    async with peer(TINY, OK) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 60)
        assert await most_in_a_round(response) <= ROUND
        assert await response.read() == BODY
        assert await whole(connections, other.url) == b"{}"
    assert other.connections == 1


@LOOPS
async def test_chunks_of_a_byte_before_the_end_of_a_connection_are_not_lost() -> None:
    async with peer(saying(TINY)) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 60)
        assert await most_in_a_round(response) <= ROUND
        assert await response.read() == BODY


async def test_lines_until_the_connection_ends_are_not_lost() -> None:
    body = b"\n" * 1_000_000
    async with peer(saying(b"HTTP/1.1 200 OK\r\n\r\n" + body)) as (other, connections):
        assert await whole(connections, other.url) == body


@pytest.mark.parametrize("length", [b"", b"Content-Length: 1000000\r\n"])
async def test_many_headers_before_a_large_body(length: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"a:b\r\n" * 45_000 + length + b"\r\n"
    body = b"{\n}\n" * 250_000
    async with peer(saying(head + body)) as (other, connections):
        assert await whole(connections, other.url) == body


async def test_what_follows_many_chunks_unasked_costs_the_connection() -> None:
    async with peer(TINY + TINY, OK) as (other, connections):
        assert await whole(connections, other.url) == BODY
        assert await whole(connections, other.url) == b"{}"
    assert other.connections == 2


async def test_half_of_many_chunks_is_an_error() -> None:
    async with peer(saying(TINY[:-100])) as (other, connections):
        with pytest.raises(ClosedEarly, match="in the middle"):
            await whole(connections, other.url)


async def test_who_gives_up_many_chunks_in_their_midst_leaves_nothing() -> None:
    async with peer(TINY, OK) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 60)
        assert arrived(response) < SIZE
        response.close()
        assert await whole(connections, other.url) == b"{}"
        assert arrived(response) < SIZE


@pytest.mark.parametrize("count", [64, 65, 100_000])
async def test_so_many_answers_may_come_before_the_final_one(count: int) -> None:
    async with peer(CONTINUE * count + OK, OK) as (other, connections):
        if count == 64:
            assert await whole(connections, other.url) == b"{}"
        else:
            with pytest.raises(BadAnswer, match="more than 64 answers before the final one"):
                await whole(connections, other.url)
        assert await whole(connections, other.url) == b"{}"
    assert other.connections == 1 + (count > 64)


@pytest.mark.parametrize("length", [True, False])
async def test_what_is_unpacked_leaves_the_loop_to_others(length: bool) -> None:
    body = bytes(15 << 20)
    packed = gzip.compress(body)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
    if length:
        said = head + b"Content-Length: %d\r\n\r\n%b" % (len(packed), packed)
    else:
        said = head + b"Transfer-Encoding: chunked\r\n\r\n"
        said += b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    async with peer(said, OK) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 60)
        assert await most_in_a_round(response) <= 5 << 20
        assert await response.read() == body
        assert await whole(connections, other.url) == b"{}"


# -- over TLS --------------------------------------------------------------------------------------


@contextmanager
def tls_peer(folder: Path, *answers: bytes) -> Generator[tuple[URL, Connections]]:
    """A server whose end follows its answer at once, without a word of TLS, as that of many does.
    The event loops' own would wait for the other side first.
    """
    cert, key = certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            plain, _ = listening.accept()
            with suppress(OSError), context.wrap_socket(plain, server_side=True) as spoken:
                spoken.settimeout(60)
                spoken.recv(65_536)
                spoken.sendall(answer)
                spoken.shutdown(socket.SHUT_WR)
                while spoken.recv(65_536):
                    pass

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    connections = Connections(ssl.create_default_context(cafile=str(cert)), 30.0, 4.0)
    try:
        yield URL(f"https://127.0.0.1:{listening.getsockname()[1]}/"), connections
    finally:
        connections.close()
        listening.close()


@LOOPS
async def test_chunks_of_a_byte_before_the_end_over_tls_are_not_lost(tmp_path: Path) -> None:
    with tls_peer(tmp_path, TINY) as (url, connections):
        response = await connections.request("POST", url, {}, b"", 60)
        assert await most_in_a_round(response) <= ROUND
        assert await response.read() == BODY


@LOOPS
async def test_what_waits_at_the_end_over_tls_for_a_slow_reader_is_not_lost(tmp_path: Path) -> None:
    bodies = [bytes(range(250)) * (size // 250) for size in range(1_250_000, 1_650_000, 50_000)]
    head = CHUNKED.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    answers = [head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) for body in bodies]
    with tls_peer(tmp_path, *answers) as (url, connections):
        for body in bodies:
            response = await connections.request("POST", url, {}, b"", 60)
            await until(lambda: arrived(response) > 1 << 20)  # noqa: B023
            for _ in range(1_000):  # whatever else there is before anybody reads
                await asyncio.sleep(0)
            assert await response.read() == body
