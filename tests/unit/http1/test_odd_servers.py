"""What servers say that HTTP does not allow, or that hardly any says: no request pays for another's
answer, and an error names its cause.
"""

import asyncio
import base64
import gzip
import zlib

import pytest
from yarl import URL

from armory.http1.pool import Connections
from armory.http1.response import BadAnswer, ClosedEarly
from tests.unit.http1.peer import OK, Answer, peer, saying, whole

pytestmark = pytest.mark.anyio


def packed(body: bytes, coding: bytes = b"gzip") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (coding, len(body)) + body


@pytest.mark.parametrize(
    "unasked",
    [
        OK,
        b"HTTP/1.1 201 Created\r\nContent-Le",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"garbage",
    ],
    ids=["answer", "beginning", "informational", "goodbye", "garbage"],
)
async def test_what_follows_an_answer_unasked_is_not_the_next_one(unasked: bytes) -> None:
    rest = b"ngth: 4\r\n\r\nevil" + OK
    async with peer(OK + unasked, rest, OK) as (other, connections):
        assert await whole(connections, other.url) == b"{}"
        other.answers[:] = [OK]
        response = await connections.request("POST", other.url, {}, b"", 10)
        assert (response.status, await response.read()) == (200, b"{}")
        assert other.connections == 2


async def test_trailers_are_no_headers_of_the_next_answer() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n"
        b"Content-Type: text/html\r\nRetry-After: 9\r\n\r\n"
    )
    async with peer(chunked, OK) as (other, connections):
        assert await whole(connections, other.url) == b"ab"
        response = await connections.request("POST", other.url, {}, b"", 10)
        assert response.content_type == "application/json"
        assert "Retry-After" not in response.headers
        assert other.connections == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 101 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", "status 99"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "Duplicate"),
    ],
)
async def test_an_answer_that_is_none_is_an_error_at_once(answer: bytes, says: str) -> None:
    async with peer(answer) as (other, connections):
        with pytest.raises(BadAnswer, match=says):
            await connections.request("POST", other.url, {}, b"", 60)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (packed(b"{}", b"br"), "coding 'br', which was not asked for"),
        (packed(b"no gzip"), "body is broken"),
        (packed(gzip.compress(bytes(32 << 20))), "unfolds too far"),
        (packed(gzip.compress(b"{}" * 500)[:-12]), "ends in the middle"),
    ],
    ids=["unknown", "broken", "bomb", "cut"],
)
async def test_a_body_that_cannot_be_unpacked_says_why(answer: bytes, says: str) -> None:
    async with peer(answer) as (other, connections):
        with pytest.raises((BadAnswer, ClosedEarly), match=says):
            await whole(connections, other.url)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (packed(b"{}", b"identity"), b"{}"),
        (packed(zlib.compress(b"{}", wbits=-15), b"deflate"), b"{}"),
        (packed(zlib.compress(b"{}", wbits=9), b"deflate"), b"{}"),
        (packed(b""), b""),
        (
            saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nto the end"),
            b"to the end",
        ),
    ],
    ids=["identity", "bare deflate", "deflate", "nothing", "transfer"],
)
async def test_odd_bodies_that_are_whole(answer: bytes | Answer, body: bytes) -> None:
    async with peer(answer) as (other, connections):
        assert await whole(connections, other.url) == body


async def test_who_waits_when_all_connections_close_hears_of_it() -> None:
    asked = asyncio.Event()

    async def never(_writer: asyncio.StreamWriter) -> None:
        asked.set()

    async with peer(never, OK) as (other, connections):
        waiting = asyncio.create_task(connections.request("POST", other.url, {}, b"", 60))
        await asyncio.wait_for(asked.wait(), 10)
        connections.close()
        with pytest.raises(ClosedEarly, match="was closed"):
            await asyncio.wait_for(waiting, 10)


async def test_an_answer_before_the_whole_request_was_sent_costs_the_connection() -> None:
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.write(OK)
        if asked > 1:
            await reader.read()
        else:
            await over.wait()  # reads no more of it
        writer.close()

    over = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    connections = Connections(True, 60.0, 60.0)
    try:
        for body in (bytes(64 << 20), b"{}"):
            response = await connections.request("POST", url, {}, body, 60)
            assert await response.read() == b"{}"
        assert asked == 2
    finally:
        over.set()
        connections.close()
        server.close()
        for _ in range(3):
            await asyncio.sleep(0)


async def test_a_connection_that_was_idle_for_too_long_is_not_used() -> None:
    async with peer(OK, OK, keepalive_s=0.0) as (other, connections):
        for _ in range(2):
            assert await whole(connections, other.url) == b"{}"
        assert other.connections == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET", "DELETE"])
async def test_a_request_that_could_have_a_body_says_that_it_has_none(method: str) -> None:
    async with peer(OK) as (other, connections):
        await connections.request(method, other.url, {}, None, 10)
        assert (b"Content-Length: 0" in other.heads[0]) is (method in ("POST", "PUT", "PATCH"))


async def test_a_name_in_a_url_is_sent_unless_a_header_says_who_asks() -> None:
    async with peer(OK, OK) as (other, connections):
        url = other.url.with_user("Ann Ü").with_password("a:b@c")
        for headers in ({}, {"authorization": "Bearer x"}):
            response = await connections.request("POST", url, headers, b"", 10)
            assert response.status == 200
        basic = b"Authorization: Basic " + base64.b64encode("Ann Ü:a:b@c".encode()) + b"\r\n"
        assert basic in other.heads[0]
        assert b"Basic" not in other.heads[1]
