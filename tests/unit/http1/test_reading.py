"""Event streams are taken apart in parts where they are many lines, at once where they are few; a
body that is there is taken without waiting.

Owns: `armory.http1.reading`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from armory.http1 import reading
from armory.http1.eventstream import Event, EventParser
from armory.http1.pool import Connections
from armory.http1.reading import BodyTooLarge, EventReader, arrived, read_body
from armory.http1.response import Response
from armory.steps import Flooding
from armory.tasks import start, stop
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
MIB = 1 << 20


class Counting(EventParser):
    """A parser that says how large the largest part was."""

    largest = 0

    def feed(self, chunk: bytes) -> list[Event]:
        self.largest = max(self.largest, len(chunk))
        return super().feed(chunk)


class Seen:
    """A meter that remembers what it was told."""

    def __init__(self) -> None:
        self.largest = 0
        self.held: set[Any] = set()

    def holds(self, source: Any, size: int) -> None:
        self.held.add(source)
        self.largest = max(self.largest, size)

    def done(self, source: Any) -> None:
        self.held.remove(source)


@asynccontextmanager
async def answered(body: bytes, *, ends: bool = True) -> AsyncGenerator[Response]:
    """The answer of a server that sends `body`, and then nothing more or the end."""
    over = asyncio.Event()

    async def speak(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(body)
        if not ends:
            await over.wait()
        return response

    app = web.Application()
    app.router.add_get("/", speak)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = URL(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    connections = Connections(False, 5.0, 4.0)
    try:
        async with asyncio.timeout(30):
            yield await connections.request("GET", url, {}, None, None)
    finally:
        over.set()
        connections.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    ("event", "whole"), [(b"data: " + b"x" * MIB + b"\n\n", True), (b"data: x\r\r", False)]
)
async def test_only_many_lines_are_taken_apart_in_parts(event: bytes, whole: bool) -> None:
    body = event * (2 * MIB // len(event))

    parser = Counting(2 * MIB)
    async with answered(body) as response:
        with EventReader(response, parser) as reader:
            events = [found async for found in reader]
    assert len(events) == 2 * MIB // len(event)
    assert (parser.largest > 16 * 1024) is whole


async def test_who_leaves_a_stream_has_told_the_meter_and_leaves_nothing_to_end() -> None:
    meter = Seen()
    async with answered(b"data: one\n\ndata: " + b"x" * (MIB // 2), ends=False) as response:
        running = asyncio.all_tasks()
        with EventReader(response, EventParser(2 * MIB), meter) as events:
            assert (await anext(events)).data == b"one"
            reading = start(anext(events), "the second event")
            await until(lambda: meter.largest >= MIB // 2)
            await stop(reading)
            assert meter.held == {response}
        assert not meter.held
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == running


async def test_others_go_on_between_events_that_came_together() -> None:
    others = 0

    async def go_on() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    async with answered(b"data: x\n\n" * 100) as response:
        await until(lambda: response.is_eof())
        other = start(go_on(), "other")
        seen: list[int] = []
        with EventReader(response, EventParser(MIB)) as events:
            async for _ in events:
                begun = perf_counter()
                while len(seen) < 10 and perf_counter() - begun < 0.002:
                    pass
                seen.append(others)
        await stop(other)
    assert len(seen) == 100
    assert seen[0] < seen[2] < seen[4] < seen[6]


async def test_a_turn_is_over_where_its_reader_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1.0
    flooding = Flooding(0.5, lambda: now)
    monkeypatch.setattr(reading, "perf_counter", lambda: now)
    monkeypatch.setattr(reading, "FLOODING", flooding)
    async with answered(b"data: x\n\n" * 10) as response:
        with EventReader(response, EventParser(MIB)) as events:
            async for _ in events:
                await asyncio.sleep(0)
                now += 100.0
    assert flooding.wait_s(0.0) == 0.0


async def test_a_body_that_is_there_is_taken_at_once_within_the_limit_alone() -> None:
    async with answered(b"12345") as response:
        await until(response.is_eof)
        assert arrived(response, 4) is None
        with pytest.raises(BodyTooLarge):
            await read_body(response, 4)
    async with answered(b"12345") as response:
        await until(response.is_eof)
        assert arrived(response, 5) == b"12345"


async def test_a_body_that_goes_on_is_not_taken_at_once() -> None:
    async with answered(b"12345", ends=False) as response:
        assert arrived(response, 1_000) is None
        assert await response.readany() == b"12345", "nothing of it is gone"
