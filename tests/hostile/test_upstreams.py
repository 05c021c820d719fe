"""Upstreams that never end, never stop, or lead elsewhere.

Bounded: what of an answer is held before it is complete, how often a stream is opened again, how
long a redirect holds, how often a defect is met and logged, who may read what is stored.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web
from msgspec import Raw
from yarl import URL

from armory.config import load_text
from armory.domain.catalog import ServerLists
from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.http1.eventstream import EventParser, EventTooLarge
from armory.http1.pool import Connections
from armory.http1.response import BadAnswer
from armory.protocol.link import Call, Owner
from armory.runtime import open_runtime
from armory.storage.database import Database
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor
from armory.upstreams.transports.http_client import UpstreamClient
from armory.upstreams.transports.legacy_streams import pause_s

pytestmark = pytest.mark.anyio
LIMIT = 1 << 20
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def begin(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", handler)
        runners.append(web.AppRunner(app, shutdown_timeout=0.1))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runners[-1].addresses[0][1]}/mcp"

    yield begin
    for runner in runners:
        await runner.cleanup()


# -- what never ends -------------------------------------------------------------------------------

ENDLESS = {
    "a header's name": (b"HTTP/1.1 200 OK\r\n", b"x"),
    "a header's value": (b"HTTP/1.1 200 OK\r\nx: ", b"x"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    "the reason": (b"HTTP/1.1 200 ", b"x"),
    "a chunk's extension": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;",
        b"x",
    ),
    "a trailer's name": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
        b"x",
    ),
}


async def fetched(connections: Connections, url: URL) -> None:
    response = await connections.request("GET", url, {}, None, None)
    await response.read()


def fed(line: bytes, times: int) -> None:
    parser = EventParser(LIMIT)
    for _ in range(times):
        parser.feed(line)


@pytest.mark.parametrize("what", ENDLESS)
async def test_what_never_ends_is_cut_off(what: str) -> None:
    begin, more = ENDLESS[what]
    sent = 0
    gone = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(begin)
        try:
            while sent < 64 * LIMIT:
                writer.write(more * (65_536 // len(more)))
                sent += 65_536
                await writer.drain()
        except ConnectionError:
            pass
        writer.transport.abort()
        gone.set()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = Connections(False, 5.0, 4.0)
    async with asyncio.timeout(20):
        with pytest.raises(BadAnswer):
            await fetched(connections, URL(f"http://127.0.0.1:{port}/"))
        await gone.wait()
    assert sent < 16 * LIMIT  # what the sockets hold, and a quarter of a mebibyte
    connections.close()
    server.close()


LINES = [b"data:\n", b"data: x\n", b"data\n", b"data: " + b"y" * 500 + b"\n"]


@pytest.mark.parametrize("line", LINES)
def test_an_event_of_endless_lines_is_too_large(line: bytes) -> None:
    with pytest.raises(EventTooLarge):
        fed(4_000 * line, 2 * LIMIT // 64 // 4_000 + 1)


def test_a_line_in_tiny_pieces_is_counted_by_what_it_takes() -> None:
    with pytest.raises(EventTooLarge):
        fed(b"x", LIMIT // 32)


# -- what comes again and again --------------------------------------------------------------------


def test_a_stream_is_not_opened_again_at_once() -> None:
    parser = EventParser(LIMIT)
    parser.feed(b"retry: 0\n\n")
    assert pause_s(parser, 0) >= 0.1
    assert pause_s(parser, 6) > 5


async def test_a_defect_is_met_ever_more_rarely_and_logged_once() -> None:
    told: list[float] = []

    def broken(_server: str, _lists: ServerLists) -> None:
        told.append(asyncio.get_running_loop().time())
        raise RuntimeError("nobody foresaw this")

    async with HttpUpstream() as server:
        pool = Pool([UpstreamSpec("up", url=server.url)])
        supervisor = Supervisor(pool, broken)
        with structlog.testing.capture_logs() as logs:
            await supervisor.start()
            await until(lambda: len(told) >= 3)
            await supervisor.stop()
        assert "nobody foresaw this" in supervisor_error(logs)
        assert [line["event"] for line in logs].count("upstream_owner_crashed") == 1
        await pool.close()


def supervisor_error(logs: list[Any]) -> str:
    return next(str(line["error"]) for line in logs if line["event"] == "upstream_down")


# -- what leads elsewhere --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_does_not_hold_for_ever(serve: Serve, status: int) -> None:
    asked: list[str] = []
    away = True

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/mcp" and away:
            return web.Response(status=status, headers={"Location": "/other"})
        return web.Response(status=200 if away or request.path == "/mcp" else 404)

    client = UpstreamClient(UpstreamSpec("up", url=await serve(handle)))
    for _ in range(2):
        (await client.send("POST", {}, b"{}", 5.0)).close()
    assert asked == ["/mcp", "/other", "/other"]
    away = False
    seen = [await client.send("POST", {}, b"{}", 5.0) for _ in range(2)]
    assert [response.status for response in seen] == [404, 200]
    for response in seen:
        response.close()
    await client.close()


async def test_a_redirect_whose_end_fails_is_not_kept(serve: Serve) -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/other":
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=307, headers={"Location": "/other"})

    client = UpstreamClient(UpstreamSpec("up", url=await serve(handle)))
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable, match=r"closed the connection|failed"):
            await client.send("POST", {}, b"{}", 30.0)
    assert asked == ["/mcp", "/other"] * 2
    await client.close()


@pytest.mark.parametrize(
    "location",
    ["http://[", "http://a:port/", "//[::1", "mailto:a@b", "", "https://xn--a.invalid/"],
)
async def test_a_redirect_to_nowhere_is_an_answer_like_others(serve: Serve, location: str) -> None:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": location})

    client = UpstreamClient(UpstreamSpec("up", url=await serve(handle)))
    with pytest.raises(UpstreamUnavailable, match="redirects to"):
        await client.send("POST", {}, b"{}", 5.0)
    await client.close()


# -- what is stored --------------------------------------------------------------------------------


async def test_what_is_stored_is_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    file = home / "armory.db"
    before = os.umask(0o022)
    try:
        file.touch(0o644)
        database = Database(f"sqlite:///{file}")
        await database.open()
        text = "upstreams: {}\ntool_rag: {enabled: false}"
        loaded = load_text(text, environ={"ARMORY_HOME": str(home)})
        async with open_runtime(loaded):
            pass
        assert home.stat().st_mode & 0o777 == 0o700
        found = {path.name: path.stat().st_mode & 0o777 for path in home.glob("armory.db*")}
        assert found
        assert set(found.values()) == {0o600}
        await database.close()
    finally:
        os.umask(before)


async def test_a_folder_for_many_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "shared"
    home.mkdir()
    home.chmod(0o1777)
    loaded = load_text("tool_rag: {enabled: false}", environ={"ARMORY_HOME": str(home)})
    async with open_runtime(loaded):
        pass
    assert home.stat().st_mode & 0o7777 == 0o1777


# -- whose failures count for whom -----------------------------------------------------------------

SLOW = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    if said.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif said.get("method") == "tools/call":
        name = said["params"]["name"]
        if name == "slow":
            continue
        if name == "crash":
            sys.exit(3)
        result = {"content": []}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""
ANN, BEN = Owner(Principal("ann")), Owner(Principal("ben"))


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    spec = UpstreamSpec(
        "up",
        command=sys.executable,
        args=("-c", SLOW),
        protocol="2025-11-25",
        breaker_failures=3,
    )
    made = Pool([spec])
    yield made
    await made.close()


def called(name: str, timeout_s: float = 10.0) -> Call:
    return Call("tools/call", {"name": Raw(f'"{name}"'.encode())}, timeout_s=timeout_s)


async def test_slow_calls_of_one_do_not_refuse_another(pool: Pool) -> None:
    await pool.request("up", ANN, called("quick"))
    for _ in range(3):
        with pytest.raises(UpstreamUnavailable, match="did not answer"):
            await pool.request("up", ANN, called("slow", 0.05))
    with pytest.raises(UpstreamUnavailable, match="3 times in a row"):
        await pool.request("up", ANN, called("quick"))
    assert (await pool.request("up", BEN, called("quick"))).result
    assert pool.status()["up"].breaker == "open"


async def test_one_crash_is_one_failure(pool: Pool) -> None:
    await pool.request("up", ANN, called("quick"))
    lost = [asyncio.ensure_future(pool.request("up", ANN, called("slow"))) for _ in range(5)]
    crash = asyncio.ensure_future(pool.request("up", ANN, called("crash")))
    ended = await asyncio.wait_for(asyncio.gather(*lost, crash, return_exceptions=True), 20)
    assert all(isinstance(error, UpstreamUnavailable) for error in ended)
    assert (await pool.request("up", ANN, called("quick"))).result
