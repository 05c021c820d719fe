"""Upstreams that say megabytes that nobody asked for.

Bounded: what is read of them, by what all of it weighs, wherever in a message that is. Others are
not slowed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from armory.http1.eventstream import Event, EventParser
from armory.protocol.link import Call
from armory.testing.clients.recording import RecordingObserver
from armory.testing.waiting import until
from armory.upstreams.session import budget as budgets
from armory.upstreams.session.budget import Budget
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.session.duplex import DuplexLink
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_answers import messages_in
from armory.upstreams.transports.http_client import UpstreamClient
from armory.upstreams.transports.sse import SseLink
from armory.upstreams.transports.stdio import StdioLink

pytestmark = pytest.mark.anyio
SIZE = 6_000_000
LONG = b"x" * SIZE
UNASKED = {
    "a notification": b'{"jsonrpc":"2.0","method":"n","params":{"a":"%b"}}' % LONG,
    "its name": b'{"jsonrpc":"2.0","method":"%b"}' % LONG,
    "a member of no meaning": b'{"jsonrpc":"2.0","method":"n","more":"%b"}' % LONG,
    "a request's id": b'{"jsonrpc":"2.0","method":"ping","id":"%b"}' % LONG,
    "a request": b'{"jsonrpc":"2.0","method":"ping","id":1,"params":{"a":"%b"}}' % LONG,
    "an error": b'{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"%b"}}' % LONG,
    "no messages": b"[%b]" % (b" " * SIZE),
    "garbage": LONG,
}


class Ticking:
    """A clock that is set by hand, or goes on a second each time that it is asked."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def context(spec: UpstreamSpec, clock: Ticking | None = None) -> LinkContext:
    budget = None if clock is None else Budget(spec.key, clock=clock)
    return LinkContext(spec, {}, RecordingObserver(), budget=budget)


def heard(link: DuplexLink) -> int:
    observer: Any = link._context.observer  # pyright: ignore[reportPrivateUsage]
    return len(observer.methods)


@pytest.mark.parametrize("what", UNASKED)
async def test_what_is_unasked_is_paid_for_whole(what: str) -> None:
    link = StdioLink(context(UpstreamSpec("up", command="none"), Ticking()))
    link.adopt(Identity("legacy", "2025-11-25"))
    link.received(UNASKED[what])
    await until(lambda: link.budget.pause_s() > 0)
    assert link.wait_s() > 0
    await link.close()


@pytest.mark.parametrize("data", [b"[%b]" % (b" " * SIZE), b" " * SIZE], ids=["batch", "spaces"])
async def test_an_event_of_nothing_is_paid_for_whole(data: bytes) -> None:
    budget = Budget("up", clock=Ticking())
    assert await messages_in(Event(data), budget) == []
    assert budget.pause_s() > 0


NOTHING = {
    "a long comment": b": %b\n" % LONG,
    "comments": b":\n" * 200_000,
    "line ends": b"\n" * 200_000,
    "ids": b"id: 1\n" * 200_000,
    "events without data": b"event: x\n\n" * 200_000,
}


@pytest.mark.parametrize("what", NOTHING)
async def test_a_stream_of_no_events_is_paid_for(what: str) -> None:
    parser, budget = EventParser(10_000_000), Budget("up", clock=Ticking())
    for event in parser.feed(NOTHING[what]):
        assert await messages_in(event, budget) == []
    assert budget.pause_s() > 0


def test_signs_of_life_and_ids_beside_events_cost_nothing() -> None:
    said = b": ping\n\nevent: message\nid: 1\ndata: {}\n\n"
    events = EventParser(1_000).feed(said * 10_000)
    assert len(events) == 10_000
    assert not any(event.skipped_bytes for event in events)


async def test_nothing_more_is_read_until_it_has_units_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budgets, "_LONGEST_PAUSE_S", 0.001)
    link = StdioLink(context(UpstreamSpec("up", command="none"), Ticking(1.0)))
    link.budget.notification(20_000_000)
    assert link.budget.pause_s() > 0
    await link.rest()
    assert not link.budget.pause_s()


# -- on every stream -------------------------------------------------------------------------------

PROGRAM = """
import sys
said = '{"jsonrpc":"2.0","method":"n","params":{"a":"' + "x" * 6_000_000 + '"}}\\n'
while True: sys.stdout.write(said)
"""
HONEST = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}), flush=True)
"""


@pytest.fixture
async def honest() -> AsyncIterator[StdioLink]:
    spec = UpstreamSpec("honest", command=sys.executable, args=("-c", HONEST))
    link = StdioLink(context(spec))
    await link.open()
    yield link
    await link.close()


async def others_are_served(honest: StdioLink) -> None:
    for _ in range(200):
        assert (await honest.request(Call("ping", {}, timeout_s=30.0))).error is None


BLANK = "import sys\nwhile True: sys.stdout.write('\\n' * 10_000)"


async def test_a_process_that_says_nothing_is_read_no_faster_either(honest: StdioLink) -> None:
    spec = UpstreamSpec("loud", command=sys.executable, args=("-c", BLANK))
    link = StdioLink(context(spec, Ticking()))
    with capture_logs() as logs:
        await link.open()
        await until(lambda: link.budget.pause_s() > 0)
        await others_are_served(honest)
        assert link.wait_s() > 0
        await link.close()
    assert [line["event"] for line in logs] == ["upstream_slowed"]


async def test_comments_are_read_no_faster_than_it_may_speak() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(b"event: endpoint\ndata: /messages\n\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b": nothing\n" * 1_000)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
    spec = UpstreamSpec("loud", url=url, transport="sse")
    client = UpstreamClient(spec)
    link = SseLink(context(spec, Ticking()), client)
    await link.open()
    try:
        await until(lambda: link.budget.pause_s() > 0)
        assert not link.closed
    finally:
        await link.close()
        await client.close()
        server.close()


async def is_read_no_faster(link: DuplexLink, clock: Ticking, honest: StdioLink) -> None:
    """Than it may speak: one message, and the next when the clock has gone on."""
    for count in (1, 2, 3):
        await until(lambda: heard(link) == count)  # noqa: B023
        await others_are_served(honest)
        assert heard(link) == count
        clock.now += 6.0


async def test_a_process_is_read_no_faster_than_it_may_speak(honest: StdioLink) -> None:
    clock = Ticking()
    spec = UpstreamSpec("loud", command=sys.executable, args=("-c", PROGRAM))
    link = StdioLink(context(spec, clock))
    await link.open()
    try:
        await is_read_no_faster(link, clock, honest)
    finally:
        await link.close()


async def test_an_event_stream_is_read_no_faster_than_it_may_speak(honest: StdioLink) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(b"event: endpoint\ndata: /messages\n\n")
        try:
            while True:
                writer.write(b"data: " + UNASKED["a notification"] + b"\n\n")
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
    clock, spec = Ticking(), UpstreamSpec("loud", url=url, transport="sse")
    client = UpstreamClient(spec)
    link = SseLink(context(spec, clock), client)
    await link.open()
    try:
        await is_read_no_faster(link, clock, honest)
    finally:
        await link.close()
        await client.close()
        server.close()


async def test_what_other_sessions_owe_an_honest_one_does_not_wait_for(honest: StdioLink) -> None:
    """The budget is one for all sessions of an upstream."""
    honest.budget.notification(200_000_000)
    async with asyncio.timeout(60):
        for _ in range(5):
            await honest.request(Call("ping", {}))
    assert honest.budget.pause_s() > 0, "which takes three minutes"
