import asyncio
import gc
import gzip
import resource
import tracemalloc
from contextlib import suppress

import pytest
from yarl import URL

from armory.http1.pool import Connections, Fields
from armory.http1.reading import read_body
from armory.http1.response import BadAnswer, ClosedEarly, NoConnection
from tests.unit.http1.peer import OK, Answer, closing, peer, saying, whole

pytestmark = pytest.mark.anyio


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with peer(OK, OK) as (other, connections):
        for _ in range(2):
            response = await connections.request("POST", other.url, {"A": "b"}, b"{}", 5)
            assert (response.status, response.content_type) == (200, "application/json")
            assert await response.read() == b"{}"
            assert response.closed
    assert other.connections == 1
    host = f"127.0.0.1:{other.url.port}".encode()
    expected = b"POST /mcp?a=1 HTTP/1.1\r\nHost: " + host + b"\r\nA: b\r\nContent-Length: 2\r\n\r\n"
    assert other.heads[0] == expected


async def test_requests_at_once_take_a_connection_each() -> None:
    gate = asyncio.Event()

    async def late(writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.write(OK)

    async with peer(late, late) as (other, connections):
        both = [
            asyncio.create_task(connections.request("POST", other.url, {}, b"", 5))
            for _ in range(2)
        ]
        async with asyncio.timeout(30):
            await other.asked_twice.wait()
        gate.set()
        assert [r.status for r in await asyncio.gather(*both)] == [200, 200]
        assert other.connections == 2


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            b"abc",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (saying(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end"), b"until the end"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
            % len(gzip.compress(b"packed"))
            + gzip.compress(b"packed"),
            b"packed",
        ),
    ],
    ids=["chunked", "informational", "empty", "until-close", "gzip"],
)
async def test_every_way_to_end_a_body(answer: bytes | Answer, body: bytes) -> None:
    async with peer(answer) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"x", 5)
        assert await response.read() == body


async def test_a_server_that_closes_gets_a_new_connection() -> None:
    bye = OK.replace(b"Content-Length", b"Connection: close\r\nContent-Length")
    async with peer(bye, OK) as (other, connections):
        for _ in range(2):
            response = await connections.request("POST", other.url, {}, b"", 5)
            assert await response.read() == b"{}"
        assert other.connections == 2


async def test_closing_without_an_answer_says_so() -> None:
    async with peer(closing) as (other, connections):
        with pytest.raises(ClosedEarly, match="without an answer"):
            await connections.request("POST", other.url, {}, b"", 5)


async def test_half_a_body_is_an_error_after_what_came() -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
    async with peer(saying(half)) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 5)
        assert await response.readany() == b"half"
        with pytest.raises(ClosedEarly, match="in the middle"):
            await response.readany()


async def test_what_is_not_http_is_an_error() -> None:
    async with peer(b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as (other, connections):
        with pytest.raises(BadAnswer):
            await connections.request("POST", other.url, {}, b"", 5)


async def test_endless_headers_are_an_error() -> None:
    flood = b"HTTP/1.1 200 OK\r\n" + b"".join(
        b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(400)
    )
    async with peer(flood) as (other, connections):
        with pytest.raises(BadAnswer):
            await connections.request("POST", other.url, {}, b"", 5)


async def test_a_compressed_bomb_is_an_error() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with peer(head + bomb) as (other, connections):
        with pytest.raises(BadAnswer):
            await whole(connections, other.url)


async def test_the_deadline_covers_the_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
    async with peer(head) as (other, connections):

        async def all_of_it() -> None:
            response = await connections.request("POST", other.url, {}, b"", 0.1)
            assert await response.readany() == b"half"
            await response.readany()

        with pytest.raises(TimeoutError):
            await all_of_it()


async def test_a_cancelled_request_closes_its_connection() -> None:
    gone = asyncio.Event()

    async def hang(writer: asyncio.StreamWriter) -> None:
        await writer.wait_closed() if writer.is_closing() else None
        gone.set()

    async with peer(hang, OK) as (other, connections):
        task = asyncio.create_task(connections.request("POST", other.url, {}, b"", 5))
        async with asyncio.timeout(30):
            await gone.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            response = await connections.request("POST", other.url, {}, b"", 5)
        assert await response.read() == b"{}"
        assert other.connections == 2


async def test_a_slow_reader_stops_the_sender() -> None:
    size = 64 * 1024 * 1024
    sent = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(64):
            writer.write(bytes(1024 * 1024))
            await writer.drain()
            sent += 1024 * 1024

    async with peer(flood) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 30)
        before = -1
        async with asyncio.timeout(10):
            while before != sent:
                before = sent
                for _ in range(200):
                    await asyncio.sleep(0)
        assert sent < size
        assert len(await response.read()) == size


async def test_nobody_there_and_headers_that_break_out() -> None:
    connections = Connections(True, 5.0, 4.0)
    with pytest.raises(NoConnection):
        await connections.request("POST", URL("http://127.0.0.1:1/"), {}, b"", 5)
    with pytest.raises(ValueError, match="line break"):
        await connections.request("POST", URL("http://127.0.0.1:1/"), {"A": "b\r\nC: d"}, b"", 5)
    with pytest.raises(NoConnection, match="http://"):
        await connections.request("POST", URL("ftp://127.0.0.1/"), {}, b"", 5)
    connections.close()


BIG = bytes(range(256)) * 2048  # half a mebibyte
BIG_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BIG)


def in_steps(*parts: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        BIG_HEAD + BIG,
        in_steps(BIG_HEAD, BIG),
        in_steps(BIG_HEAD + BIG[:1], BIG[1:-1], BIG[-1:]),
        in_steps(BIG_HEAD + BIG[:-1], BIG[-1:]),
        in_steps(BIG_HEAD + BIG[:1000], BIG[1000:300_000], BIG[300_000:]),
    ],
)
async def test_a_large_body_arrives_whole_however_it_is_cut(answer: bytes | Answer) -> None:
    async with peer(answer, answer, OK) as (other, connections):
        assert await whole(connections, other.url) == BIG
        assert await whole(connections, other.url) == BIG
        assert await whole(connections, other.url) == b"{}"
    assert other.connections == 1


async def test_a_large_body_arrives_whole_after_very_many_headers() -> None:
    """What is kept for another round of the loop is none of it: who reads counts on the socket."""
    head = BIG_HEAD[:-2] + b"".join(b"X-%d: y\r\n" % number for number in range(520)) + b"\r\n"
    async with peer(in_steps(head + BIG[:40_000], BIG[40_000:]), OK) as (other, connections):
        assert await whole(connections, other.url) == BIG
        assert await whole(connections, other.url) == b"{}"


async def test_what_follows_a_large_body_unasked_costs_the_connection() -> None:
    async with peer(in_steps(BIG_HEAD, BIG + OK), OK) as (other, connections):
        assert await whole(connections, other.url) == BIG
        assert await whole(connections, other.url) == b"{}"
    assert other.connections == 2


async def test_a_large_body_that_ends_early_fails_the_call() -> None:
    async with peer(saying(BIG_HEAD + BIG[:-1]), OK) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 5)
        with pytest.raises(ClosedEarly):
            await response.read()
        assert await whole(connections, other.url) == b"{}"


async def test_the_deadline_holds_in_the_middle_of_a_large_body() -> None:
    async def stuck(writer: asyncio.StreamWriter) -> None:
        writer.write(BIG_HEAD + BIG[:-1])
        await asyncio.sleep(5)

    async with peer(stuck, OK) as (other, connections):

        async def all_of_it() -> None:
            response = await connections.request("POST", other.url, {}, b"", 0.2)
            await response.read()

        with pytest.raises(TimeoutError):
            await all_of_it()


async def test_a_compressed_large_body_is_unpacked() -> None:
    packed = gzip.compress(BIG, compresslevel=0)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with peer(head + packed, OK) as (other, connections):
        assert await whole(connections, other.url) == BIG
        assert await whole(connections, other.url) == b"{}"
    assert other.connections == 1


async def test_kept_headers_go_out_the_same_each_time() -> None:
    kept = Fields({"A": "b"})
    async with peer(OK, OK, OK) as (other, connections):
        for headers in (kept, kept, {"A": "b"}):
            response = await connections.request("POST", other.url, headers, b"{}", 5)
            await response.read()
    assert other.heads[0] == other.heads[1] == other.heads[2]


@pytest.mark.parametrize("name", ["Host", "host"])
async def test_the_host_that_was_configured_is_sent_in_place_of_that_of_the_url(name: str) -> None:
    async with peer(OK) as (scripted, connections):
        headers = {"A": "b", name: "internal.example"}
        response = await connections.request("GET", scripted.url, headers, None, 5)
        await response.read()
        expected = b"GET /mcp?a=1 HTTP/1.1\r\nHost: internal.example\r\nA: b\r\n\r\n"
        assert scripted.heads == [expected]


async def test_a_line_break_in_kept_headers_is_refused_every_time() -> None:
    kept = Fields({"A": "b\r\nC: d"})
    async with peer() as (other, connections):
        for _ in range(2):
            with pytest.raises(ValueError, match="line break"):
                await connections.request("POST", other.url, kept, b"", 5)


@pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
    ids=["uvloop", "asyncio"],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_either_event_loop_will_do(
    anyio_backend: tuple[str, dict[str, bool]], host: str
) -> None:
    async with peer(OK, OK) as (other, connections):
        for _ in range(2):
            assert await whole(connections, other.url.with_host(host)) == b"{}"
    assert other.connections == 1
    uvloop = type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    assert uvloop is anyio_backend[1]["use_uvloop"]


async def test_what_has_not_come_of_a_large_body_takes_no_memory() -> None:
    declared = 64 << 20
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % declared
    async with peer(saying(head + BIG)) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 60)
        gc.collect()
        gc.disable()  # it would write to all pages, which were shared with whoever was forked last
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            with pytest.raises(ClosedEarly):
                await response.read()
            touched = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        finally:
            gc.enable()
    assert touched * resource.getpagesize() < declared // 4


@pytest.mark.parametrize("length", [b"Content-Length: 99999999", b"Transfer-Encoding: chunked"])
async def test_nothing_is_left_of_what_came_of_a_body_that_failed(length: bytes) -> None:
    size = 4 << 20
    head = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%x\r\n" % (length, size)
    async with peer(saying(head + b"x" * (size - 1))) as (other, connections):
        response = await connections.request("POST", other.url, {}, b"", 60)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            with suppress(ClosedEarly):
                await read_body(response, 1 << 30)
            del response
            await asyncio.sleep(0)
            left, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert most > size // 2
    assert left < size // 16
