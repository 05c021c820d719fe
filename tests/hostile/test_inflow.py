"""Upstreams that send much and never the end of it.

Bounded: what answers that are not whole yet hold of memory, all together; who holds most pays.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from msgspec import Raw
from structlog.testing import capture_logs

from armory.config import load_text
from armory.domain.principal import Principal
from armory.http1.reading import COUNTED_BYTES
from armory.protocol.link import Call, Owner, Reply
from armory.runtime import open_runtime
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.session.inflow import LEAST_BYTES, Inflow, Meter
from armory.upstreams.spec import INFLOW_BYTES, UpstreamSpec
from armory.web.settings import ListenSettings

pytestmark = pytest.mark.anyio
HALF = 2 * COUNTED_BYTES
LIMIT = 5 * HALF // 2
ANN = Owner(Principal("ann"))
WAYS = ("length", "chunks", "events", "lines")
HELLO = (
    '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    '"serverInfo":{"name":"x","version":"1"}}'
)
STDIO = f"""
import json, sys, threading
for line in sys.stdin:
    said = json.loads(line)
    if said.get("method") == "initialize":
        result = json.loads({HELLO!r})
    elif said.get("method") == "tools/call" and said["params"]["name"] == "half":
        sys.stdout.write('{{"jsonrpc":"2.0","id":%d,"result":{{"content":[' % said["id"])
        sys.stdout.write(" " * {HALF})
        sys.stdout.flush()
        continue
    elif said.get("method") == "tools/call":
        result = {{"content": [{{"type": "text", "text": "x" * {HALF}}}]}}
        sys.stdout.write("\\n")
    elif "id" in said:
        result = {{}}
    else:
        continue
    print(json.dumps({{"jsonrpc": "2.0", "id": said["id"], "result": result}}), flush=True)
"""


def test_who_holds_most_pays_with_what_is_oldest() -> None:
    inflow = Inflow(10)
    given_up: list[str] = []
    for server, source, size in [
        ("good", "a", 4), ("bad", "b", 2), ("bad", "c", 3), ("bad", "b", 3), ("good", "d", 1),
    ]:  # fmt: skip
        inflow.holds(server, source, size, given_up.append)
    assert (given_up, inflow.held) == (["b"], 8)
    inflow.done("b")
    inflow.done("a")
    assert inflow.held == 4
    inflow.holds("other", "e", 11, given_up.append)
    assert (given_up, inflow.held) == (["b", "e"], 4)


def test_of_answers_that_are_given_up_one_after_another_the_log_says_little() -> None:
    inflow = Inflow(10)
    with capture_logs() as logs:
        for number in range(100):
            inflow.holds("ab"[number % 2], number, 11, lambda _source: None)
    assert inflow.held == 0
    assert sorted(line["upstream"] for line in logs) == ["a", "b"]


def test_what_clients_do_not_read_takes_of_the_room() -> None:
    unread = 0
    inflow = Inflow(3 * LEAST_BYTES, lambda: unread)
    given_up: list[str] = []
    inflow.holds("bad", "a", 2 * LEAST_BYTES, given_up.append)
    inflow.holds("good", "b", LEAST_BYTES // 2, given_up.append)
    assert given_up == []
    unread = 9 * LEAST_BYTES
    inflow.holds("good", "b", LEAST_BYTES, given_up.append)
    assert (given_up, inflow.held) == (["a"], LEAST_BYTES)


def test_by_default_what_arrives_and_what_waits_leave_room_for_the_rest() -> None:
    """Beside a gateway of 190 MB, with 100,000 tools some 100 MB more, below 600 MB in all."""
    unread = ListenSettings().unread_bytes
    assert max(INFLOW_BYTES, unread + LEAST_BYTES) <= 128 << 20
    for most in (INFLOW_BYTES, ListenSettings().unread_bytes):
        assert most > 100_000_000, "one large answer"


class GivenUp:
    """A session, and the messages of it that were given up."""

    def __init__(self) -> None:
        self.sources: list[object] = []

    def give_up(self, source: object) -> None:
        self.sources.append(source)


def test_a_session_gives_up_what_is_too_much_while_it_is_there() -> None:
    inflow, session = Inflow(limit_bytes=2 * COUNTED_BYTES), GivenUp()
    given_up = session.sources
    meter = Meter(inflow, "up", session.give_up)
    meter.holds("a", COUNTED_BYTES)
    meter.holds("b", COUNTED_BYTES + 1)
    assert given_up == ["a"]
    del session  # nothing but the meter knows its method
    meter.holds("c", COUNTED_BYTES)
    assert given_up == ["a"]
    assert inflow.held <= 2 * COUNTED_BYTES


def test_small_messages_are_not_counted() -> None:
    inflow, session = Inflow(), GivenUp()
    meter = Meter(inflow, "up", session.give_up)
    meter.holds("a", COUNTED_BYTES - 1)
    assert inflow.held == 0
    meter.holds("a", COUNTED_BYTES)
    assert inflow.held == COUNTED_BYTES


async def _answer(request: web.Request) -> web.StreamResponse:
    way = request.path.strip("/")
    said = await request.json()
    if "id" not in said:
        return web.Response(status=202)
    if said["method"] == "initialize":
        text = f'{{"jsonrpc":"2.0","id":{said["id"]},"result":{HELLO}}}'
        return web.Response(text=text, content_type="application/json")
    kind = "text/event-stream" if way == "events" else "application/json"
    response = web.StreamResponse(headers={"Content-Type": kind})
    begin = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[' % said["id"]
    half = said["params"]["name"] == "half"
    body = begin + b" " * HALF + b"]}}"
    if way == "length":
        response.content_length = len(body)
    await response.prepare(request)
    prefix = b"data: " if way == "events" else b""
    await response.write(prefix + body[:-3])
    if half:
        await asyncio.Event().wait()
    await response.write(body[-3:] + (b"\n\n" if way == "events" else b""))
    return response


@pytest.fixture
async def url() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/{way}", _answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def spec(key: str, way: str, url: str) -> UpstreamSpec:
    if way == "lines":
        return UpstreamSpec(key, command=sys.executable, args=("-c", STDIO), protocol="2025-11-25")
    return UpstreamSpec(key, url=f"{url}/{way}", protocol="2025-11-25", call_timeout_s=30)


@pytest.mark.parametrize("good", ["length", "lines"])
@pytest.mark.parametrize("bad", WAYS)
async def test_what_is_not_whole_is_bounded(bad: str, good: str, url: str) -> None:
    pool = Pool([spec("bad", bad, url), spec("good", good, url)], inflow=Inflow(LIMIT))
    inflow = pool._inflow  # pyright: ignore[reportPrivateUsage]
    owners = [Owner(Principal(f"p{n}")) for n in range(2)]
    halves: list[asyncio.Task[Reply]] = []
    for n, owner in enumerate(owners, 1):
        halves.append(asyncio.create_task(pool.request("bad", owner, call("half"))))
        await until(lambda n=n: inflow.held >= n * HALF)
    assert (await pool.request("good", ANN, call("whole"))).result
    if bad == "lines":  # the call hears of it where the line ends
        await pool.request("bad", owners[0], call("whole"))
    await until(halves[0].done)
    assert "server.limits.inflow_bytes" in str(halves[0].exception())
    assert not halves[1].done()
    assert HALF <= inflow.held <= LIMIT
    halves[1].cancel()
    await asyncio.wait(halves, timeout=10)
    await pool.close()
    assert inflow.held == 0


async def test_the_limit_has_a_key() -> None:
    text = "server: {limits: {inflow_bytes: 9}}\ntool_rag: {enabled: false}"
    async with open_runtime(load_text(text, environ={})) as running:
        inflow: Any = running.pool._inflow  # pyright: ignore[reportPrivateUsage]
        assert (inflow._limit, inflow._unread()) == (9, 0)
        listening: Any = SimpleNamespace(connections=SimpleNamespace(unread=7))
        running.listening = listening
        assert inflow._unread() == 7
        running.listening = None


def call(name: str) -> Call:
    return Call("tools/call", {"name": Raw(f'"{name}"'.encode())})
