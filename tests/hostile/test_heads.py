"""Headers of requests, and requests that come before the one before them is answered.

Bounded: what a header may hold in all, what is read ahead on one connection, and how much a path, a
query or cookies are looked through before anybody knows who asks.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from typing import SupportsIndex

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from armory.security.sealing import Seal
from armory.testing.serving import listen
from armory.testing.waiting import until
from armory.web.app import Listening, make_app
from armory.web.binding import bind
from armory.web.connections.connection import Connection
from armory.web.connections.receiving import AHEAD_BYTES
from armory.web.cookies import SealedCookies
from armory.web.settings import ListenSettings
from armory.wire.http.host_checks import HostChecks

pytestmark = pytest.mark.anyio
PATIENCE_S = 20
LINE = b"X-Line: " + b"a" * 90_000 + b"\r\n"


class Served:
    """A server with a handler that answers when it is told, and connections to it."""

    def __init__(self, listening: Listening, go_on: asyncio.Event) -> None:
        self.listening = listening
        self.go_on = go_on
        self.cancelled = asyncio.Event()
        self.sockets: list[socket.socket] = []

    async def connect(self) -> socket.socket:
        """A connection that takes what there is room for."""
        made = socket.socket()
        made.setblocking(False)
        self.sockets.append(made)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(made, ("127.0.0.1", self.listening.port))
        return made

    async def heard(self, made: socket.socket) -> bytes:
        """What comes before the server ends the connection."""
        loop, found = asyncio.get_running_loop(), b""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while piece := await loop.sock_recv(made, 65_536):
                    found += piece
            except ConnectionResetError:
                pass
        return found


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    go_on = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            found.cancelled.set()
            raise
        return web.Response(text=str(len(await request.read())))

    async def echo(request: web.Request) -> web.StreamResponse:
        return web.Response(text=str(len(await request.read())))

    app = make_app(body_bytes=1 << 20)
    app.router.add_post("/hang", hang)
    app.router.add_post("/echo", echo)
    settings = ListenSettings(drain_timeout_s=0.1)
    listening = await listen(app, bind("127.0.0.1", 0), settings=settings)
    found = Served(listening, go_on)
    yield found
    for made in found.sockets:
        made.close()
    await listening.close()


def posted(path: bytes, length: int = 0, more: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%b\r\n" % (path, length, more)


async def test_a_header_of_many_lines_ends(served: Served) -> None:
    loop = asyncio.get_running_loop()
    made = await served.connect()
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\n" + 100 * LINE
    sending = asyncio.ensure_future(loop.sock_sendall(made, head))
    await served.heard(made)
    await asyncio.wait([sending], timeout=PATIENCE_S)
    sending.exception()
    assert served.listening.connections.cut == {"header": 1}


async def test_what_comes_ahead_of_its_turn_waits_in_the_network(served: Served) -> None:
    """A header may have a hundred lines, and thirty requests may wait: that would be 288 MB."""
    made = await served.connect()
    (connection,) = await _connections(served)
    sent, whole = 0, memoryview(posted(b"/hang") + 7 * posted(b"/echo", more=100 * LINE))
    loop = asyncio.get_running_loop()
    while sent < len(whole):
        try:
            async with asyncio.timeout(1):
                await loop.sock_sendall(made, whole[sent : sent + 65_536])
        except TimeoutError:
            break
        sent += 65_536
    assert sent < len(whole) // 2
    assert connection.ahead < 2 * AHEAD_BYTES


async def _connections(served: Served) -> list[Connection]:
    await until(lambda: len(served.listening.connections) == 1)
    return served.listening.connections.every()


@pytest.mark.parametrize(
    "target",
    [b"/" * 90_000, b"/a" * 40_000 + b"?b=c", b"/console?" + b"&" * 90_000],
    ids=["slashes", "parts", "parameters"],
)
async def test_a_target_of_very_many_parts_is_not_looked_through(
    served: Served, target: bytes
) -> None:
    """The router looks for each beginning of a path in turn, before anybody knows who asks."""
    loop = asyncio.get_running_loop()
    made = await served.connect()
    await loop.sock_sendall(made, b"GET %b HTTP/1.0\r\nHost: a\r\n\r\n" % target)
    assert (await served.heard(made)).startswith(b"HTTP/1.0 414 ")


async def test_a_long_target_of_few_parts_is_looked_through(served: Served) -> None:
    loop = asyncio.get_running_loop()
    made = await served.connect()
    target = b"/v1/" + b"a" * 20_000 + b"?b=" + b"/" * 20_000 + b"&c=d"
    await loop.sock_sendall(made, b"GET %b HTTP/1.0\r\nHost: a\r\n\r\n" % target)
    assert (await served.heard(made)).startswith(b"HTTP/1.0 404 ")


def test_of_very_many_proxies_the_last_are_looked_at() -> None:
    """The one in front of the gateway adds what it saw behind what a client made up."""
    hosts = HostChecks(trusted_proxies=["10.0.0.0/8"])
    looked: list[str] = []

    class Looked(str):
        """A header that notes how it is taken apart."""

        __slots__ = ()

        def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
            looked.append(f"at most {maxsplit}")
            return super().rsplit(sep, maxsplit)

    said = Looked("10.0.0.1," * 10_000 + "203.0.113.9, 10.0.0.2")
    assert hosts.seen_as("10.0.0.3", {"X-Forwarded-For": said})[0] == "203.0.113.9"
    assert looked == ["at most 32"]


def test_of_very_many_cookies_some_are_looked_at() -> None:
    cookies = SealedCookies(Seal(["a-secret-of-some-length"]), "/connect", HostChecks())
    response = cookies.write(_asked(""), web.Response(), "kept", 7, 60)
    sent = response.cookies["kept"].OutputString().partition(";")[0]
    assert cookies.read(_asked(f"a=b; {sent}; c=d"), "kept", int) == 7
    assert cookies.read(_asked(f"{'a;' * 100}{sent}"), "kept", int) == 7
    assert cookies.read(_asked(f"{'a;' * 10_000}{sent}"), "kept", int) is None


def _asked(cookie: str) -> web.Request:
    return make_mocked_request("GET", "/", headers={"Cookie": cookie})


async def test_what_came_ahead_is_answered_in_its_turn(served: Served) -> None:
    loop = asyncio.get_running_loop()
    made = await served.connect()
    body = b"x" * 40_000
    ahead = 40 * (posted(b"/echo", len(body)) + body)
    sending = asyncio.ensure_future(loop.sock_sendall(made, posted(b"/hang") + ahead))
    (connection,) = await _connections(served)
    await until(lambda: connection.ahead > AHEAD_BYTES)
    served.go_on.set()
    found = b""
    async with asyncio.timeout(PATIENCE_S):
        while found.count(b"\r\n\r\n40000") < 40:
            found += await loop.sock_recv(made, 65_536)
    await sending


@pytest.mark.parametrize("way", ["closed", "half closed", "reset"])
@pytest.mark.parametrize("ahead", ["large", "many"])
async def test_who_hangs_up_cancels_whatever_came_ahead(
    served: Served, way: str, ahead: str
) -> None:
    """Nothing is read behind it until its turn comes, and so not the end either."""
    loop = asyncio.get_running_loop()
    made = await served.connect()
    body = b"x" * 40_000
    large = 20 * (posted(b"/echo", len(body)) + body)
    more = large if ahead == "large" else 200 * posted(b"/echo")
    await loop.sock_sendall(made, posted(b"/hang") + more)
    (connection,) = await _connections(served)
    await until(lambda: connection.unheard)
    if way == "half closed":
        made.shutdown(socket.SHUT_WR)
    else:
        if way == "reset":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        made.close()
    async with asyncio.timeout(PATIENCE_S):
        await served.cancelled.wait()
    assert served.listening.connections.cut == {}


async def test_a_header_that_began_ahead_ends_as_well(served: Served) -> None:
    """It was held back while another request was answered, and is read on then."""
    loop = asyncio.get_running_loop()
    made = await served.connect()
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\n" + 20 * LINE
    sending = asyncio.ensure_future(loop.sock_sendall(made, posted(b"/hang") + head))
    (connection,) = await _connections(served)
    await until(lambda: connection.ahead > AHEAD_BYTES)
    served.go_on.set()
    said = await served.heard(made)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert served.listening.connections.cut == {"header": 1}
    await asyncio.wait([sending], timeout=PATIENCE_S)
    sending.exception()
