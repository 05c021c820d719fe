"""Requests of one connection: in its task, each in a context of its own, as aiohttp would."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import AsyncIterator
from contextvars import ContextVar
from hashlib import md5

import aiohttp
import pytest
from aiohttp import web
from aiohttp.compression_utils import HAS_BROTLI, HAS_ZSTD

from armory.testing.serving import listen
from armory.web.app import Listening, make_app
from armory.web.binding import bind
from armory.web.connections import exchanges
from armory.wire.http.body import read_body

pytestmark = pytest.mark.anyio


POST = b"POST /%b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b"
WHOSE: ContextVar[str] = ContextVar("whose", default="nobody's")


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.head = ""

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def ask(self, path: bytes, body: bytes = b"") -> None:
        self.send(POST % (path, len(body), body))

    async def answer(self) -> tuple[int, str]:
        """Status and body of the next answer."""
        async with asyncio.timeout(20):
            self.head = head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.split("content-length:")[1].split("\r\n")[0])
            return int(head.split()[1]), (await self._reader.readexactly(length)).decode()

    async def ended(self) -> bool:
        """Whether the other side closes, with nothing more said."""
        async with asyncio.timeout(20):
            return await self._reader.read() == b""

    def hang_up(self) -> None:
        self._writer.transport.abort()


class Served:
    """A server, what its handlers saw, and connections to it."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[object] | None] = []
        self.bodies: list[aiohttp.StreamReader] = []
        self.hangs = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.listening: Listening
        self.clients: list[Client] = []
        self.turn = 0
        self.seen: list[tuple[int, int]] = []
        self.parts: list[int] = []

    async def echo(self, request: web.Request) -> web.Response:
        self.tasks.append(asyncio.current_task())
        body = await request.text()
        return web.Response(text=f"{body} in {request.path}")

    async def whose(self, request: web.Request) -> web.Response:
        before = WHOSE.get()
        WHOSE.set(await request.text())
        return web.Response(text=before)

    async def unread(self, request: web.Request) -> web.Response:
        self.bodies.append(request.content)
        return web.Response(text="not read")

    async def fail(self, _: web.Request) -> web.Response:
        raise RuntimeError("a defect")

    async def hang(self, _: web.Request) -> web.Response:
        self.hangs.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            self.cancelled.set()

    async def seen_in(self, request: web.Request) -> web.Response:
        """Note in which turn of the loop how much of the body is seen."""
        size = 0
        while part := await request.content.readany():
            self.seen.append((self.turn, len(part)))
            size += len(part)
        if not size:
            self.seen.append((self.turn, 1))
        return web.Response(text=str(size))

    async def unpacked(self, request: web.Request) -> web.Response:
        """Read the body as that of a message is."""

        async def look(part: bytes) -> None:
            self.seen.append((self.turn, len(part)))

        body = await read_body(request, 8 << 20, lambda: look)
        return web.Response(text=str(len(body or b"")))

    async def late(self, request: web.Request) -> web.Response:
        """Read the body once all of it has come."""
        content, size = request.content, int(request.headers["X-Size"])
        while content.total_bytes < size:  # noqa: ASYNC110 nothing tells of that
            await asyncio.sleep(0)
        self.parts.append(len(content._buffer))  # pyright: ignore[reportPrivateUsage]
        return web.Response(text=str(len(await request.read())))

    async def behind(self, request: web.Request) -> web.Response:
        """Read only where nothing more comes before that."""
        content, parts = request.content, list[bytes]()
        while not content.at_eof():
            while not (content.is_eof() or request.protocol._reading_paused):  # pyright: ignore[reportPrivateUsage] # noqa: ASYNC110 nothing tells of that
                await asyncio.sleep(0)
            parts.append(await content.readany())
        return web.Response(text=md5(b"".join(parts)).hexdigest())

    async def count_turns(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def most_in_a_turn(self) -> int:
        each: Counter[int] = Counter()
        for turn, size in self.seen:
            each[turn] += size
        return max(each.values())

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.listening.port))
        self.clients.append(client)
        return client


@pytest.fixture(params=["own", "aiohttp"])
async def served(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    """Served by our loop, and by the one of aiohttp that it stands for."""
    monkeypatch.setattr(exchanges, "KNOWN", request.param == "own")
    found = Served()
    app = make_app(body_bytes=1_000_000)
    handlers = (found.echo, found.whose, found.unread, found.fail, found.hang)
    for handler in (*handlers, found.seen_in, found.unpacked, found.late, found.behind):
        app.router.add_post(f"/{handler.__name__}", handler)
    found.listening = await listen(app, bind("127.0.0.1", 0))
    counting = asyncio.ensure_future(found.count_turns())
    yield found
    counting.cancel()
    for client in found.clients:
        client.hang_up()
    await found.listening.close()


async def test_one_after_the_other_also_where_all_come_at_once(served: Served) -> None:
    client = await served.connect()
    client.send(b"".join(POST % (b"echo", 1, b"%d" % n) for n in range(9)))
    assert [await client.answer() for _ in range(9)] == [(200, f"{n} in /echo") for n in range(9)]
    client.ask(b"echo", b"later")
    assert await client.answer() == (200, "later in /echo")


async def test_what_a_request_sets_ends_with_it(served: Served) -> None:
    """Another person's request may come over the same connection, through a proxy."""
    client = await served.connect()
    for person in (b"Ada's", b"Bo's"):
        client.ask(b"whose", person)
        assert await client.answer() == (200, "nobody's")


async def test_a_body_that_nobody_reads(served: Served) -> None:
    client = await served.connect()
    client.send(POST % (b"unread", 6, b"abc"))
    assert await client.answer() == (200, "not read")
    client.send(b"def")
    client.ask(b"echo", b"next")
    assert await client.answer() == (200, "next in /echo")


async def test_a_defect_costs_its_own_request(served: Served) -> None:
    client, other = await served.connect(), await served.connect()
    client.ask(b"fail")
    assert (await client.answer())[0] == 500
    other.ask(b"echo", b"here")
    assert await other.answer() == (200, "here in /echo")


async def test_bytes_that_are_no_request(served: Served) -> None:
    client = await served.connect()
    client.ask(b"echo", b"first")
    assert (await client.answer())[0] == 200
    client.send(b"NO REQUEST\r\n\r\n")
    assert (await client.answer())[0] == 400
    assert await client.ended()


async def test_an_upgrade_that_is_not_taken_up(served: Served) -> None:
    client = await served.connect()
    upgrade = b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    client.send(upgrade + b"Content-Length: 0\r\n\r\n")
    assert await client.answer() == (200, " in /echo")
    client.ask(b"echo", b"next")
    assert await client.answer() == (200, "next in /echo")


async def test_a_client_that_wants_no_other_answer(served: Served) -> None:
    client = await served.connect()
    client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert await client.answer() == (200, " in /echo")
    assert await client.ended()


async def test_who_hangs_up_cancels(served: Served) -> None:
    client = await served.connect()
    client.ask(b"hang")
    async with asyncio.timeout(20):
        await served.hangs.wait()
        client.hang_up()
        await served.cancelled.wait()


async def asked_three_times(monkeypatch: pytest.MonkeyPatch, path: str) -> Served:
    """What handlers saw of three requests that our loop served."""
    monkeypatch.setattr(exchanges, "KNOWN", True)
    found = Served()
    app = make_app(body_bytes=1_000)
    app.router.add_post(f"/{path}", getattr(found, path))
    found.listening = await listen(app, bind("127.0.0.1", 0))
    client = await found.connect()
    for _ in range(3):
        client.ask(path.encode(), b"body")
        await client.answer()
    client.hang_up()
    await found.listening.close()
    return found


async def test_who_reads_a_body_late_is_told_by_an_error_that_is_nobody_elses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One error for all would keep whatever stood on the stacks of those who ever read one late."""
    found = await asked_three_times(monkeypatch, "unread")
    errors: list[BaseException] = []
    for body in found.bodies[:2]:
        with pytest.raises(RuntimeError, match="once it has been answered") as late:
            await body.read()
        errors.append(late.value)
    assert errors[0] is not errors[1]


async def test_no_task_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await asked_three_times(monkeypatch, "echo")
    assert len(found.tasks) == 3
    assert len(set(found.tasks)) == 1


@pytest.mark.parametrize("served", ["own"], indirect=True)
async def test_requests_that_wait_are_answered_some_in_a_turn(served: Served) -> None:
    client = await served.connect()
    for _ in range(400):
        client.ask(b"seen_in")
    assert [await client.answer() for _ in range(400)] == [(200, "0")] * 400
    assert served.most_in_a_turn() <= exchanges.AT_ONCE


CHUNKED = (
    b"POST /%b HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Size: %d\r\nTransfer-Encoding: chunked\r\n\r\n"
)


async def test_a_body_in_tiny_chunks_is_parsed_some_in_a_turn(served: Served) -> None:
    client = await served.connect()
    for size in (20_000, 100):
        client.send(CHUNKED % (b"seen_in", size) + b"1\r\nx\r\n" * size + b"0\r\n\r\n")
    client.ask(b"echo", b"next")
    assert await client.answer() == (200, "20000")
    assert await client.answer() == (200, "100")
    assert await client.answer() == (200, "next in /echo")
    assert served.most_in_a_turn() < 3_000, "two pieces of 8 KiB, six bytes for each chunk"


async def test_tiny_chunks_that_wait_are_put_together(served: Served) -> None:
    client = await served.connect()
    client.send(CHUNKED % (b"late", 10_000) + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n")
    assert await client.answer() == (200, "10000")
    assert served.parts[0] < 100


@pytest.mark.parametrize("size", [200, 4_096, 8_192])
async def test_a_body_in_chunks_whose_reader_is_behind_is_whole(served: Served, size: int) -> None:
    """The parts that wait are put together, but not while they are being read."""
    body = b"".join(b"%d," % number for number in range(250_000))
    pieces = (body[i : i + size] for i in range(0, len(body), size))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    client = await served.connect()
    client.send(CHUNKED % (b"behind", len(body)) + chunks + b"0\r\n\r\n")
    assert await client.answer() == (200, md5(body).hexdigest())


PACKED = (
    b"POST /%b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: gzip\r\n"
    b"Content-Length: %d\r\n\r\n%b"
)


@pytest.mark.parametrize("served", ["own"], indirect=True)
async def test_a_packed_body_is_not_unpacked_to_its_end_for_nothing(served: Served) -> None:
    bomb = gzip.compress(bytes(32 << 20))
    client = await served.connect()
    client.send(PACKED % (b"unread", len(bomb), bomb))
    assert await client.answer() == (200, "not read")
    assert await client.ended()
    assert served.bodies[0].total_bytes < 8 << 20


@pytest.mark.parametrize("served", ["own"], indirect=True)
@pytest.mark.parametrize("path", [b"echo", b"unread"])
async def test_what_is_not_packed_as_it_says_is_the_clients_mistake(
    served: Served, path: bytes
) -> None:
    client = await served.connect()
    client.send(PACKED % (path, 7, b"no gzip"))
    status, said = await client.answer()
    if path == b"unread":
        assert (status, said) == (200, "not read")
    else:
        assert status == 400
        assert "cannot be read: Can not decode content-encoding: gzip" in said
        assert "connection: close" in client.head
    assert await client.ended()


@pytest.mark.parametrize("served", ["own"], indirect=True)
@pytest.mark.parametrize("coding", [b"br", b"zstd"])
async def test_a_coding_that_is_not_understood_is_named_with_those_that_are(
    served: Served, coding: bytes
) -> None:
    if {b"br": HAS_BROTLI, b"zstd": HAS_ZSTD}[coding]:
        pytest.skip("its package is installed")
    client = await served.connect()
    client.send((PACKED % (b"echo", 7, b"no data")).replace(b"gzip", coding))
    status, said = await client.answer()
    assert status == 415
    assert "expected one of gzip, deflate" in said
    assert "accept-encoding: gzip, deflate" in client.head
    assert await client.ended()


@pytest.mark.parametrize("served", ["own"], indirect=True)
async def test_a_packed_body_is_unpacked_some_in_a_turn(served: Served) -> None:
    packed = gzip.compress(bytes(4 << 20))
    client = await served.connect()
    client.send(PACKED % (b"unpacked", len(packed), packed))
    assert await client.answer() == (200, str(4 << 20))
    assert served.most_in_a_turn() <= 1 << 20
