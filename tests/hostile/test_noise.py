"""Upstreams that say what nobody asked for, as fast as they can.

Bounded: what is read of it, the lines of log, the answers to its own requests, the time on the
event loop; and it is cut off where slowing it does not help.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from aiohttp import web
from msgspec import Raw
from yarl import URL

from armory.errors import UpstreamTimeout
from armory.http1.eventstream import Event, EventParser
from armory.http1.pool import Connections
from armory.http1.reading import EventReader
from armory.protocol.link import Call
from armory.protocol.versions import Era
from armory.testing.clients.recording import RecordingObserver
from armory.testing.waiting import until
from armory.upstreams.session import budget as budgets
from armory.upstreams.session.budget import BURST, RATE, Budget
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_answers import messages_in
from armory.upstreams.transports.stdio import StdioLink

pytestmark = pytest.mark.anyio
MIB = 1 << 20


class Ticking:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_an_honest_upstream_says_costs_no_pause() -> None:
    clock = Ticking()
    budget = Budget("up", clock=clock)
    for _ in range(60):
        for _ in range(int(RATE * 0.9)):
            budget.notification(0)
            assert not budget.pause_s()
        clock.now += 1.0


def test_much_progress_is_slowed_but_never_cut() -> None:
    clock = Ticking()
    budget = Budget("up", clock=clock)
    said = 0
    while clock.now < 60:
        budget.notification(100)
        said += 1
        clock.now += budget.pause_s()
        assert not budget.worn_out
    assert said < BURST + 60 * RATE


@pytest.mark.parametrize("size", [0, 100_000])
def test_garbage_is_slowed_and_then_cut(size: int) -> None:
    clock = Ticking()
    budget = Budget("up", clock=clock)
    count = 0
    with structlog.testing.capture_logs() as logs:
        while not budget.worn_out:
            budget.garbage("no JSON", size)
            count += 1
            clock.now += budget.pause_s()
            assert clock.now < 30
    assert count < (BURST + 15 * RATE) / budgets.NUISANCE
    assert len(logs) <= 23
    assert [line["event"] for line in logs].count("upstream_muted") == 1


@pytest.mark.parametrize("data", [b"", b" ", b"\n"])
async def test_an_event_that_only_names_an_id_is_no_garbage(data: bytes) -> None:
    with structlog.testing.capture_logs() as logs:
        assert await messages_in(Event(data, id="1"), Budget("up", clock=Ticking())) == []
        assert await messages_in(Event(b"no JSON", id="2"), Budget("up", clock=Ticking())) == []
    assert len(logs) == 1, "of what is garbage"


def test_who_stops_is_forgiven() -> None:
    clock = Ticking()
    budget = Budget("up", clock=clock)
    while not budget.pause_s():
        budget.nuisance()
    clock.now += 60
    assert not budget.pause_s()
    assert not budget.worn_out


@pytest.mark.parametrize("end", [b"\n", b"\r"])
async def test_a_stream_of_small_events_leaves_the_loop_to_others(end: bytes) -> None:
    body = (b"data: x" + end + end) * (2 * MIB // 9)

    async def speak(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    app = web.Application()
    app.router.add_get("/", speak)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    connections = Connections(False, 5.0, 4.0)
    response = await connections.request("GET", URL(f"http://127.0.0.1:{port}/"), {}, None, None)
    await until(lambda: len(response._chunks) > 1 or response.is_eof())  # pyright: ignore[reportPrivateUsage]
    ticking = asyncio.ensure_future(tick())
    before, least, seen = 0, 0, 0
    async for _ in EventReader(response, EventParser(MIB)):
        seen += 1
        if seen % 20_000 == 0:
            least += ticks > before
            before = ticks
    ticking.cancel()
    assert seen == body.count(b"data")
    assert least >= seen // 20_000 - 1  # the loop turned in the midst of every 180 kB
    connections.close()
    await runner.cleanup()


# -- a process -------------------------------------------------------------------------------------

GARBAGE = "import sys\nwhile True: sys.stdout.write('x\\n' * 10_000)"
SHORT = "import sys\nwhile True: sys.stdout.write('{}\\n' * 10_000)"
PINGS = """
import sys
while True:
    sys.stdout.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\\n' * 1_000)
"""
ANSWERS = """
import sys
while True:
    sys.stdout.write('{"jsonrpc":"2.0","id":9999,"result":{}}\\n' * 1_000)
"""
CHANGED = """
import sys
said = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\\n'
sys.stdout.write(said * int(sys.argv[1]))
sys.stdout.flush()
sys.stdin.read()
"""
ERRORS = "import sys\nwhile True: sys.stderr.write('trouble\\n' * 10_000)"
LOGS = """
import json, sys
for line in sys.stdin:
    id = json.loads(line)["id"]
    print(json.dumps({"id": id, "level": 30, "msg": "incoming request"}))
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}), flush=True)
"""
LATE = """
import json, sys
calls = []
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "tools/call":
        calls.append(message["id"])
    elif message["method"] == "notifications/cancelled":
        for _ in range(int(sys.argv[1])):
            said = {"jsonrpc": "2.0", "id": calls[0], "result": {"text": "x" * 8_000_000}}
            print(json.dumps(said))
        del calls[0]
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
"""


@pytest.fixture
async def links() -> AsyncIterator[list[StdioLink]]:
    opened: list[StdioLink] = []
    yield opened
    for link in opened:
        await link.close()


async def opened(links: list[StdioLink], program: str, *args: str) -> StdioLink:
    spec = UpstreamSpec("noisy", command=sys.executable, args=("-c", program, *args))
    links.append(StdioLink(LinkContext(spec, {}, RecordingObserver())))
    await links[-1].open()
    return links[-1]


@pytest.mark.parametrize("program", [GARBAGE, SHORT, PINGS, ANSWERS])
async def test_a_process_that_does_not_stop_is_cut_off(
    links: list[StdioLink], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "_PATIENCE_S", 0.3)
    most = 0

    def look(link: StdioLink) -> bool:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        return link.closed

    with structlog.testing.capture_logs() as logs:
        link = await opened(links, program)
        await until(lambda: look(link))
    assert "cut off" in str(link.death)
    assert len(logs) < 60
    assert most < 40


async def test_of_changes_of_lists_ten_thousand_at_once_are_too_many(
    links: list[StdioLink],
) -> None:
    with structlog.testing.capture_logs() as logs:
        link = await opened(links, CHANGED, "10000")
        await until(lambda: any(line["event"] == "upstream_slowed" for line in logs))
    assert not link.closed


async def test_a_server_may_announce_each_of_a_thousand_tools_that_it_adds(
    links: list[StdioLink],
) -> None:
    with structlog.testing.capture_logs() as logs:
        link = await opened(links, CHANGED, "1000")
        heard: Any = link._context.observer  # pyright: ignore[reportPrivateUsage]
        await until(lambda: len(heard.methods) == 1_000)
    assert not [line for line in logs if line["event"] == "upstream_slowed"]


async def test_a_line_of_log_that_has_an_id_is_no_answer(links: list[StdioLink]) -> None:
    link = await opened(links, LOGS)
    reply = await link.request(Call("ping", {}, timeout_s=15.0))
    assert reply.result == Raw(b"{}")


@pytest.mark.parametrize(("era", "version"), [("legacy", "2025-11-25"), ("modern", "2026-07-28")])
@pytest.mark.parametrize("times", [1, 2])
async def test_an_answer_to_a_call_that_was_given_up_costs_nothing_once(
    links: list[StdioLink], era: Era, version: str, times: int
) -> None:
    link = await opened(links, LATE, str(times))
    link.adopt(Identity(era, version))
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(UpstreamTimeout):
                await link.request(Call("tools/call", {}, timeout_s=0.05))
        await link.request(Call("ping", {}, timeout_s=30.0))
    slowed = [line for line in logs if line["event"] == "upstream_slowed"]
    assert bool(slowed) == (times > 1)


async def test_standard_error_is_read_no_faster_than_it_is_worth(links: list[StdioLink]) -> None:
    with structlog.testing.capture_logs() as logs:
        link = await opened(links, ERRORS)
        process: Any = link._process  # pyright: ignore[reportPrivateUsage]
        await until(lambda: any(line["event"] == "upstream_stderr_muted" for line in logs))
        pipe = process._transport.get_pipe_transport(2)
        await until(lambda: not pipe.is_reading())
    assert len(logs) <= 202
    assert not link.closed


async def test_of_many_lines_of_standard_error_at_once_the_first_and_the_last_are_read(
    links: list[StdioLink],
) -> None:
    link = await opened(links, "import sys; sys.stdin.read()")
    process: Any = link._process  # pyright: ignore[reportPrivateUsage]
    process.pipe_data_received(2, b"".join(b"%d\n" % number for number in range(50_000)))
    kept = process._errors.lines()
    assert (kept[0], kept[-1]) == ("0", "49999")
    assert len(kept) == 400
