"""Event streams are taken apart in parts where they are many lines, at once where they are few.

Owns: `armory.http1.reading.read_events`.
"""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from yarl import URL

from armory.http1.eventstream import Event, EventParser
from armory.http1.pool import Connections
from armory.http1.reading import read_events

pytestmark = pytest.mark.anyio
MIB = 1 << 20


class Counting(EventParser):
    """A parser that says how large the largest part was."""

    largest = 0

    def feed(self, chunk: bytes) -> list[Event]:
        self.largest = max(self.largest, len(chunk))
        return super().feed(chunk)


@pytest.mark.parametrize(
    ("event", "whole"), [(b"data: " + b"x" * MIB + b"\n\n", True), (b"data: x\r\r", False)]
)
async def test_only_many_lines_are_taken_apart_in_parts(event: bytes, whole: bool) -> None:
    body = event * (2 * MIB // len(event))

    async def speak(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    app = web.Application()
    app.router.add_get("/", speak)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    connections = Connections(False, 5.0, 4.0)
    parser = Counting(2 * MIB)
    async with asyncio.timeout(30):
        response = await connections.request(
            "GET", URL(f"http://127.0.0.1:{port}/"), {}, None, None
        )
        events = [found async for found in read_events(response, parser)]
    connections.close()
    await runner.cleanup()
    assert len(events) == 2 * MIB // len(event)
    assert (parser.largest > 16 * 1024) is whole
