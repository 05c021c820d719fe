"""The end of a server: what is on its way is answered, what hangs is cut off."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiohttp import web

from armory.testing.serving import listen
from armory.web.app import Listening, make_app
from armory.web.binding import bind
from armory.web.settings import ListenSettings

pytestmark = pytest.mark.anyio
ASKED = b"GET /%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
DRAIN_S = 3.0


class Served:
    """A server with one route that answers and one that hangs."""

    def __init__(self) -> None:
        self.hangs = asyncio.Event()
        self.cancelled = False
        self.ending: Listening

    async def answer(self, _: web.Request) -> web.Response:
        return web.Response(text="here")

    async def hang(self, _: web.Request) -> web.Response:
        self.hangs.set()
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def start(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Serve; one connection to it."""
        app = make_app(body_bytes=100)
        app.router.add_get("/answer", self.answer)
        app.router.add_get("/hang", self.hang)
        settings = ListenSettings(drain_timeout_s=DRAIN_S)
        self.ending = await listen(app, bind("127.0.0.1", 0), settings=settings)
        return await asyncio.open_connection("127.0.0.1", self.ending.port)


async def head(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(10):
        return (await reader.readuntil(b"\r\n\r\n")).lower()


@pytest.mark.parametrize("used", [False, True])
async def test_a_request_that_meets_the_end_is_answered(used: bool) -> None:
    """On a connection that waits: a client cannot know yet that it will be closed."""
    served = Served()
    reader, writer = await served.start()
    if used:
        writer.write(ASKED % b"answer")
        assert b" 200 " in await head(reader)
        assert await reader.readexactly(4) == b"here"
    served.ending.leave()
    closing = asyncio.create_task(served.ending.close())
    await asyncio.sleep(0)  # ports are closed, connections are told
    await asyncio.sleep(0)
    writer.write(ASKED % b"answer")
    said = await head(reader)
    assert b" 200 " in said
    assert b"connection: close" in said
    assert await reader.read() == b"here"
    writer.close()
    await closing


async def test_a_request_that_hangs_is_waited_for_once() -> None:
    served = Served()
    reader, writer = await served.start()
    writer.write(ASKED % b"hang")
    await served.hangs.wait()
    began = time.monotonic()
    await served.ending.close()
    took_s = time.monotonic() - began
    assert served.cancelled
    assert DRAIN_S * 0.9 < took_s < DRAIN_S * 1.9
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("used", [False, True])
async def test_a_client_that_says_nothing_and_stays_holds_up_no_end(used: bool) -> None:
    served = Served()
    reader, writer = await served.start()
    if used:
        writer.write(ASKED % b"answer")
        await head(reader)
        assert await reader.readexactly(4) == b"here"
    async with asyncio.timeout(30):  # it never hangs up
        await served.ending.close()
    assert await reader.read() == b""
    writer.close()
