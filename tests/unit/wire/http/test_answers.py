"""JSON answers on the wire: what is written is HTTP, whoever asks and however the body is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from armory.testing.service import QUICK_END
from armory.testing.serving import listen
from armory.web.app import make_app
from armory.web.binding import bind
from armory.web.front import Shortcut
from armory.wire.http.answers import JsonAnswer

pytestmark = pytest.mark.anyio
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BIG = b"[" + b'"abcdefgh",' * 400_000 + b"1]"


@asynccontextmanager
async def serving(handler: Handler, shortcut: Shortcut | None = None) -> AsyncGenerator[int]:
    app = make_app(body_bytes=1 << 20)
    app.router.add_route("*", "/mcp", handler)
    listening = await listen(app, bind("127.0.0.1", 0), settings=QUICK_END, shortcut=shortcut)
    try:
        yield listening.port
    finally:
        await listening.close()


def answering(*parts: bytes, status: int = 200, **headers: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        return JsonAnswer([memoryview(p) if len(p) > 9 else p for p in parts], status, headers)

    return handle


class Client:
    """One connection, read as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(
        self, line: str = "POST /mcp HTTP/1.1", *headers: str
    ) -> tuple[str, dict[str, str]]:
        lines = [line, "Host: x", "Content-Length: 2", *headers]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n{}")
        return await self.head()

    async def head(self) -> tuple[str, dict[str, str]]:
        async with asyncio.timeout(10):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        status, *fields = raw.decode("latin-1").strip().split("\r\n")
        pairs = (field.partition(": ") for field in fields)
        return status, {name.lower(): value for name, _, value in pairs}

    async def body(self, size: int) -> bytes:
        async with asyncio.timeout(20):
            return await self.reader.readexactly(size)


@asynccontextmanager
async def client(port: int) -> AsyncGenerator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def test_answers_on_one_connection_each_with_its_length_type_and_date() -> None:
    async with serving(answering(b'{"a":', b"1}")) as port, client(port) as peer:
        for _ in range(3):
            status, headers = await peer.ask()
            assert status == "HTTP/1.1 200 OK"
            assert headers["content-type"] == "application/json"
            assert headers["content-length"] == "7"
            assert "date" in headers
            assert "server" in headers
            assert "connection" not in headers
            assert await peer.body(7) == b'{"a":1}'


async def test_a_small_answer_needs_none_of_aiohttps_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare(*_: object) -> None:
        raise AssertionError("as large ones, and those with headers of their own")

    monkeypatch.setattr(JsonAnswer, "prepare", prepare)
    async with serving(answering(b'{"a":', b"1}")) as port, client(port) as peer:
        for _ in range(2):
            assert (await peer.ask())[0] == "HTTP/1.1 200 OK"
            assert await peer.body(7) == b'{"a":1}'


async def test_statuses_have_their_phrase() -> None:
    async with serving(answering(b"{}", status=404)) as port, client(port) as peer:
        assert (await peer.ask())[0] == "HTTP/1.1 404 Not Found"


async def test_own_headers_are_sent() -> None:
    async with serving(answering(b"{}", Vary="Origin")) as port, client(port) as peer:
        for _ in range(2):
            _, headers = await peer.ask()
            assert (headers["vary"], headers["content-length"]) == ("Origin", "2")
            assert headers["content-type"] == "application/json"
            assert await peer.body(2) == b"{}"


@pytest.mark.parametrize(
    ("line", "header"),
    [("POST /mcp HTTP/1.1", "Connection: close"), ("POST /mcp HTTP/1.0", "X: y")],
)
async def test_the_connection_ends_for_clients_that_want_it_so(line: str, header: str) -> None:
    async with serving(answering(b"[", b"]")) as port, client(port) as peer:
        status, headers = await peer.ask(line, header)
        assert status == f"{line[-8:]} 200 OK"
        assert headers["content-length"] == "2"
        assert await peer.reader.read() == b"[]"


async def test_http_1_0_may_keep_its_connection() -> None:
    async with serving(answering(b"{}")) as port, client(port) as peer:
        for _ in range(2):
            _, headers = await peer.ask("POST /mcp HTTP/1.0", "Connection: keep-alive")
            assert headers["connection"] == "keep-alive"
            assert await peer.body(2) == b"{}"


async def test_head_gets_the_head_alone() -> None:
    async with serving(answering(b"{}")) as port, client(port) as peer:
        status, _ = await peer.ask("HEAD /mcp HTTP/1.1")
        assert status == "HTTP/1.1 200 OK"
        await peer.ask()
        assert await peer.body(2) == b"{}"


async def test_a_large_body_reaches_a_client_that_reads_slowly() -> None:
    parts = (b'{"a":', BIG, b"}", BIG, b"!")
    whole = b"".join(parts)
    async with serving(answering(*parts)) as port, client(port) as peer:
        for _ in range(2):
            _, headers = await peer.ask()
            assert int(headers["content-length"]) == len(whole)
            assert await peer.body(len(whole)) == whole


async def test_a_client_that_leaves_in_the_middle_harms_nobody() -> None:
    async with serving(answering(BIG)) as port:
        async with client(port) as peer:
            await peer.ask()
        async with client(port) as peer:
            await peer.ask()
            assert await peer.body(len(BIG)) == BIG


async def test_the_shortcut_is_taken_when_all_is_ready_and_nothing_is_expected() -> None:
    ready = False
    usual, quick = answering(b'"usual"'), answering(b'"quick"')
    shortcut = Shortcut({"/mcp": quick}, lambda: ready)
    async with serving(usual, shortcut) as port, client(port) as peer:
        await peer.ask()
        assert await peer.body(7) == b'"usual"'
        ready = True
        await peer.ask("POST /mcp?a=b HTTP/1.1")
        assert await peer.body(7) == b'"quick"'
        status, _ = await peer.ask("POST /mcp HTTP/1.1", "Expect: 100-continue")
        assert status == "HTTP/1.1 100 Continue"
        await peer.head()
        assert await peer.body(7) == b'"usual"'
        status, _ = await peer.ask("POST /other HTTP/1.1")
        assert status == "HTTP/1.1 404 Not Found"
