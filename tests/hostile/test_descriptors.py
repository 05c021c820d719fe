"""Descriptors that are used up, by whatever: who only waits goes, and it is said once.

Bounded: how long the gateway accepts nobody, on either event loop, and what it writes about it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource

import pytest
import structlog
from aiohttp import web

from armory.testing.serving import listen
from armory.testing.waiting import until
from armory.web.app import make_app
from armory.web.binding import bind
from armory.web.settings import ListenSettings

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize(
        "anyio_backend",
        [("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
        ids=["uvloop", "asyncio"],
    ),
]
ASK = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def _health(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


async def test_descriptors_that_are_used_up_make_those_go_who_wait() -> None:
    app = make_app(body_bytes=1 << 20)
    app.router.add_get("/healthz", _health)
    settings = ListenSettings(body_timeout_s=0.2)
    listening = await listen(app, bind("127.0.0.1", 0), settings=settings)
    idle = [await asyncio.open_connection("127.0.0.1", listening.port) for _ in range(4)]
    await until(lambda: len(listening.connections) == 4)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        with structlog.testing.capture_logs() as logs:
            resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 20, limits[1]))
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            await until(lambda: listening.connections.cut.get("evicted", 0) == 4)
            await until(lambda: len(listening.connections) == 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)
    assert [line["event"] for line in logs] == ["descriptors_used_up"]
    reader, writer = await asyncio.open_connection("127.0.0.1", listening.port)
    writer.write(ASK)
    assert b" 200 OK" in await reader.read()
    for one in (writer, *(writer for _, writer in idle)):
        one.transport.abort()
    await listening.close()
