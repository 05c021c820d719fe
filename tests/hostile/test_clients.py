"""Clients that stay silent, half-way or do not read.

Bounded: how long a header, a body and reading may take, how many connections there are, what
answers that nobody reads may hold; and health is answered throughout.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
import structlog
from aiohttp import web

from armory.config import load_text
from armory.runtime.settings import listen_settings
from armory.testing.serving import listen
from armory.testing.waiting import until
from armory.web.app import Listening, make_app
from armory.web.binding import bind
from armory.web.settings import ListenSettings
from armory.wire.http.answers import JsonAnswer, write_event
from armory.wire.http.body import read_body

pytestmark = pytest.mark.anyio
PATIENCE_S = 20
LARGE = b"x" * (6 << 20)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[..., Awaitable[Listening]]
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]
CLIENTS: list[asyncio.StreamWriter] = []


async def _health(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


async def _read(request: web.Request) -> web.StreamResponse:
    return web.Response(text=str(len(await request.read())))


async def _large(request: web.Request) -> web.StreamResponse:
    request.protocol.caller = request.query_string  # type: ignore[attr-defined]  # as `Admission`
    return JsonAnswer((LARGE,))


async def _event(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await write_event(request, response, (LARGE,))
    return response


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(LARGE)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    begun: list[Listening] = []

    async def begin(limits: ListenSettings, more: Mapping[str, Handler] = {}) -> Listening:
        app = make_app(body_bytes=1 << 20)
        settings = replace(limits, drain_timeout_s=0.1)
        app.router.add_get("/healthz", _health)
        app.router.add_post("/mcp", _read)
        app.router.add_post("/large", _large)
        app.router.add_post("/event", _event)
        app.router.add_post("/stream", _stream)
        for path, handler in more.items():
            app.router.add_post(path, handler)
        begun.append(await listen(app, bind("127.0.0.1", 0), settings=settings))
        return begun[0]

    yield begin
    for writer in CLIENTS:
        writer.transport.abort()
    CLIENTS.clear()
    for one in begun:
        await one.close()


async def connect(listening: Listening, said: bytes = b"", *, limit: int = 4096) -> Pipe:
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", listening.port))
    reader, writer = await asyncio.open_connection(sock=narrow, limit=limit)
    CLIENTS.append(writer)
    writer.write(said)
    return reader, writer


async def ended(pipe: Pipe) -> bytes:
    """What comes before the server ends the connection."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await pipe[0].read(-1)
    except ConnectionResetError:
        return b""
    finally:
        pipe[1].transport.abort()


async def asked(listening: Listening, path: str = "/healthz") -> bytes:
    head = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    return (await ended(await connect(listening, head.encode()))).split(b"\r\n")[0]


def posted(path: str, length: int = 0) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode()


SLOW = {
    "nothing at all": b"",
    "half a request line": b"POST /mc",
    "half a header": b"POST /mcp HTTP/1.1\r\nHost: a\r\nX-A: ",
    "half a body": posted("/mcp", 10) + b"12345",
    "half a chunk": b"POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nab",
}


@pytest.mark.parametrize("name", SLOW)
async def test_half_a_request_is_not_waited_for(serve: Serve, name: str) -> None:
    listening = await serve(ListenSettings(header_timeout_s=0.2, body_timeout_s=0.2))
    said = await ended(await connect(listening, SLOW[name]))
    assert said.startswith(b"HTTP/1.1 408 ")
    assert await asked(listening) == b"HTTP/1.1 200 OK"


async def test_half_a_second_request_is_not_waited_for(serve: Serve) -> None:
    listening = await serve(ListenSettings(header_timeout_s=0.2))
    pipe = await connect(listening, posted("/mcp"))
    async with asyncio.timeout(PATIENCE_S):
        await pipe[0].readuntil(b"\r\n\r\n0")
    pipe[1].write(b"POST /mcp HT")
    assert (await ended(pipe)).startswith(b"HTTP/1.1 408 ")


async def test_one_byte_at_a_time_does_not_help(serve: Serve) -> None:
    listening = await serve(ListenSettings(header_timeout_s=0.2))
    reader, writer = await connect(listening)

    async def trickle() -> None:
        for byte in b"POST /mcp HTTP/1.1\r\nX-A: " + b"a" * 10_000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.01)
            for _ in range(3):  # what has come is read first: a byte after the end resets it
                await asyncio.sleep(0)

    trickling = asyncio.ensure_future(trickle())
    assert (await ended((reader, writer))).startswith(b"HTTP/1.1 408 ")
    trickling.cancel()


async def test_who_waits_makes_room(serve: Serve) -> None:
    listening = await serve(ListenSettings(connections=20))
    silent = [await connect(listening, b"POST") for _ in range(40)]
    await until(lambda: listening.connections.cut.get("evicted", 0) == 20)
    assert len(listening.connections) == 20
    assert await asked(listening) == b"HTTP/1.1 200 OK"
    assert await ended(silent[0]) == b""


@pytest.mark.parametrize("path", ["/large", "/stream"])
async def test_who_does_not_read_is_cut(serve: Serve, path: str) -> None:
    listening = await serve(ListenSettings(write_timeout_s=0.2))
    _, writer = await connect(listening, posted(path))
    await until(lambda: listening.connections.cut.get("write") == 1)
    assert not len(listening.connections)
    writer.transport.abort()


async def test_who_reads_slowly_is_not(serve: Serve) -> None:
    listening = await serve(ListenSettings(write_timeout_s=1.0))
    reader, _ = await connect(listening, posted("/large"), limit=1 << 17)
    size = 0
    async with asyncio.timeout(PATIENCE_S):
        while size < len(LARGE):
            size += len(await reader.read(1 << 18))
            await asyncio.sleep(0.001)
    assert not listening.connections.cut


async def test_what_nobody_reads_is_bounded_in_all(serve: Serve) -> None:
    limit = 3 * len(LARGE)
    listening = await serve(ListenSettings(unread_bytes=limit))
    pipes = [await connect(listening, posted("/large")) for _ in range(12)]
    await until(lambda: listening.connections.cut.get("unread", 0) >= 4)
    assert listening.connections.unread <= limit
    assert await asked(listening) == b"HTTP/1.1 200 OK"
    for _, writer in pipes:
        writer.transport.abort()
    await until(lambda: not listening.connections.unread)


async def test_who_holds_most_of_what_nobody_reads_is_cut(serve: Serve) -> None:
    listening = await serve(ListenSettings(unread_bytes=4 * len(LARGE)))
    slow = await connect(listening, posted("/large?slow"))
    connections = listening.connections
    await until(lambda: connections.unread >= len(LARGE))
    for _ in range(6):
        await connect(listening, posted("/large?greedy"))
    await until(lambda: connections.cut.get("unread", 0) >= 3)
    assert "slow" in {one.caller for one in connections.every()}, "it lags longest of all"
    slow[1].transport.abort()


BODY = 1 << 20


def half_a_body(path: str) -> bytes:
    return posted(path, BODY + 1) + b"x" * BODY


async def test_bodies_that_do_not_end_are_bounded_in_all(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def read_own(request: web.Request) -> web.StreamResponse:
        return web.Response(text=str(len(await read_body(request, BODY + 1) or b"")))

    listening = await serve(ListenSettings(arriving_bytes=3 * BODY), {"/own": read_own})
    connections = listening.connections
    pipes = await asyncio.gather(*(connect(listening, half_a_body("/own")) for _ in range(9)))
    await until(lambda: connections.cut.get("arriving", 0) >= 6)
    assert connections.arriving <= 3 * BODY
    whole = await connect(listening, posted("/mcp", BODY - 1) + b"x" * (BODY - 1))
    async with asyncio.timeout(PATIENCE_S):
        assert await whole[0].readline() == b"HTTP/1.1 200 OK\r\n"
    for _, writer in (*pipes, whole):
        writer.transport.abort()
    await until(lambda: not connections.arriving)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR], "nothing is wrong here"


async def test_who_sends_most_of_what_does_not_end_is_cut(serve: Serve) -> None:
    async def read_for(request: web.Request) -> web.StreamResponse:
        request.protocol.caller = request.query_string  # type: ignore[attr-defined]  # as `Admission`
        return await _read(request)

    listening = await serve(ListenSettings(arriving_bytes=4 * BODY), {"/for": read_for})
    connections = listening.connections
    await connect(listening, half_a_body("/for?slow"))
    await until(lambda: connections.arriving >= BODY)
    for _ in range(6):
        await connect(listening, half_a_body("/for?greedy"))
    await until(lambda: connections.cut.get("arriving", 0) >= 3)
    assert "slow" in {one.caller for one in connections.every()}, "it is the first of all"


async def test_a_body_that_is_understood_counts_no_more(serve: Serve) -> None:
    served = asyncio.Event()

    async def understood(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        request.protocol.understood()  # type: ignore[attr-defined]  # as the edge
        await served.wait()
        return web.Response(text=str(len(body)))

    listening = await serve(ListenSettings(arriving_bytes=2 * BODY), {"/slow": understood})
    size = BODY - 1
    pipes = [await connect(listening, posted("/slow", size) + b"x" * size) for _ in range(5)]
    await until(lambda: sum(one.request is not None for one in listening.connections.every()) == 5)
    await until(lambda: not listening.connections.arriving)
    served.set()
    for pipe in pipes:
        async with asyncio.timeout(PATIENCE_S):
            assert await pipe[0].readline() == b"HTTP/1.1 200 OK\r\n"
    assert not listening.connections.cut


@pytest.mark.parametrize("path", ["/large", "/event"])
async def test_what_is_read_of_a_large_answer_is_held_until_its_end(
    serve: Serve, path: str
) -> None:
    listening = await serve(ListenSettings())
    reader, writer = await connect(listening, posted(path), limit=1 << 17)
    async with asyncio.timeout(PATIENCE_S):
        await reader.readexactly(len(LARGE) // 6)
    await until(lambda: listening.connections.unread >= len(LARGE))
    writer.transport.abort()
    await until(lambda: not listening.connections.unread)


class Large(bytearray):
    """An answer that can be watched."""


async def test_nothing_is_left_of_an_answer_whose_client_went_away(serve: Serve) -> None:
    left: list[weakref.ref[Large]] = []

    async def answer(_request: web.Request) -> web.StreamResponse:
        large = Large(LARGE)
        left.append(weakref.ref(large))
        return JsonAnswer((cast("bytes", large),))

    listening = await serve(ListenSettings(), {"/watched": answer})
    gc.collect()
    gc.disable()
    try:
        _, writer = await connect(listening, posted("/watched"))
        await until(lambda: listening.connections.unread >= len(LARGE))
        writer.transport.abort()
        await until(lambda: not len(listening.connections))
        await until(lambda: left[0]() is None)
    finally:
        gc.enable()


MALFORMED = {
    "a header without an end": b"GET / HTTP/1.1\r\nX: " + b"y" * 60_000 + b"\r\n\r\n",
    "thousands of headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
    "two lengths": b"POST /mcp HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}1",
    "no HTTP": b"\x16\x03\x01\x00" * 100 + b"\r\n\r\n",
    "no HTTP, later": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" + b"\xff" * 100 + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_what_is_no_request_leaves_no_trace_in_the_log(
    serve: Serve, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    listening = await serve(ListenSettings())
    said = await ended(await connect(listening, MALFORMED[name], limit=1 << 17))
    assert b" 400 Bad Request" in said
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


async def test_failing_accepts_are_logged_once(serve: Serve) -> None:
    listening = await serve(ListenSettings())
    for _ in range(4):
        await connect(listening)
    await until(lambda: len(listening.connections) == 4)
    said: dict[str, Any] = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(errno.EMFILE, "Too many open files"),
    }
    with structlog.testing.capture_logs() as logs:
        for _ in range(1_000):
            asyncio.get_running_loop().call_exception_handler(said)
    assert [line["event"] for line in logs] == ["descriptors_used_up"]
    assert listening.connections.cut["evicted"] == 4  # and room is made


async def test_what_comes_after_the_end_has_begun_is_answered(serve: Serve) -> None:
    listening = await serve(ListenSettings())
    idle = await connect(listening, posted("/mcp"))
    async with asyncio.timeout(PATIENCE_S):
        await idle[0].readuntil(b"\r\n\r\n0")
    busy = await connect(listening, posted("/mcp", 10))
    await until(lambda: len(listening.connections) == 2)
    closing = asyncio.ensure_future(listening.close())
    for _ in range(10):
        await asyncio.sleep(0)
    idle[1].write(posted("/mcp"))
    said = await ended(idle)
    assert b" 200 OK" in said
    assert b"Connection: close" in said
    busy[1].transport.abort()
    await closing


def test_the_limits_have_keys() -> None:
    keys: dict[str, Any] = {
        "connections": 5,
        "header_timeout_s": 1.5,
        "body_timeout_s": 2.5,
        "keepalive_timeout_s": 3.5,
        "write_timeout_s": 4.5,
        "unread_bytes": 6,
        "header_bytes": 2_000,
    }
    config = load_text(f"server: {{limits: {keys}}}", environ={}).config
    assert listen_settings(config.server) == ListenSettings(**keys)
