"""Watched resources, where an upstream refuses, dies or is replaced."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner, Refused
from armory.testing.clients.recording import plain
from armory.testing.clock import FakeClock
from armory.testing.upstreams.exchange import Json, Wire
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from armory.upstreams.connecting.watched import Watched
from armory.upstreams.pool import Pool
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

ANN = Owner(Principal("ann"))
BOTH, ONE = frozenset({"mem://one", "mem://two"}), frozenset({"mem://one"})


@pytest.fixture
async def pool(server: HttpUpstream, clock: FakeClock) -> AsyncIterator[Pool]:
    pool = Pool([UpstreamSpec("up", url=server.url, idle_timeout_s=100)], clock=clock)
    yield pool
    await pool.close()


async def test_what_nobody_watches_any_more_holds_no_session_though_the_upstream_refuses(
    pool: Pool, server: HttpUpstream, clock: FakeClock
) -> None:
    await pool.set_subscriptions("up", ANN, BOTH)
    server.script.broken_lists.add("resources/unsubscribe")
    sessions = pool.upstream("up").links
    for left in (ONE, frozenset[str]()):
        sessions.reap(clock.now() + 1_000)
        assert server.deleted == []
        with pytest.raises(Refused):
            await pool.set_subscriptions("up", ANN, left)
    sessions.reap(clock.now() + 1_000)
    await until(lambda: len(server.deleted) == 1)


class Slow(Script):
    """Takes its time to subscribe to anything the first time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked, self.goes_on = asyncio.Event(), asyncio.Event()

    async def _result(self, message: Json, wire: Wire) -> Json:
        if message["method"] == "resources/subscribe" and not self.asked.is_set():
            self.asked.set()
            await self.goes_on.wait()
        return await super()._result(message, wire)


async def test_a_session_that_is_opened_while_another_subscribes_reports_the_same(
    pool: Pool, server: HttpUpstream
) -> None:
    server.script = script = Slow()
    sessions = pool.upstream("up").links
    async with asyncio.timeout(20):
        await sessions.opened(ANN, {})
        subscribing = asyncio.create_task(pool.set_subscriptions("up", ANN, ONE))
        await script.asked.wait()
        await sessions.opened(ANN, {"roots": {}})
        script.goes_on.set()
        await subscribing
    subscribed = [
        headers["Mcp-Session-Id"]
        for headers, message in server.requests
        if message["method"] == "resources/subscribe"
    ]
    assert len(subscribed) == len({*subscribed}) == 2


class Link:
    """A session as `Watched` sees it, which may end with the answer to a subscription."""

    def __init__(self, watched: list[Watched], *, ends: bool) -> None:
        self.closed = False
        self.subscriptions = self
        self.reported = frozenset[str]()
        self._watched = watched
        self._ends = ends

    async def set_resources(self, uris: frozenset[str]) -> None:
        self.reported = uris
        if self._ends:
            self.closed = True
            self._watched[0].lost("ann")


def watched_over(clock: FakeClock, *ends: bool) -> tuple[Watched, list[Link]]:
    """Sessions that end, or do not, one after the other; the last one is the present one."""
    those = list[Watched]()
    links = list[Link]()
    coming = iter(ends)

    async def linked(_owner: str) -> BaseLink:
        links.append(Link(those, ends=next(coming)))
        return cast("BaseLink", links[-1])

    those.append(Watched("up", linked, lambda _owner: [], clock))
    return those[0], links


async def test_a_session_that_ends_with_the_answer_is_made_again(clock: FakeClock) -> None:
    watched, links = watched_over(clock, True, False)
    async with asyncio.timeout(20):
        first = Link([watched], ends=True)
        await watched.watch("ann", ONE, [cast("BaseLink", first)])
        await until(lambda: clock.sleeping == 1)
        await clock.advance(60)
        await until(lambda: len(links) == 2)
        assert (links[-1].reported, links[-1].closed) == (ONE, False)
        await watched.close()
    assert not clock.sleeping


async def test_what_is_forgotten_as_a_session_is_lost_can_be_watched_again(
    clock: FakeClock,
) -> None:
    watched, links = watched_over(clock, False)
    await watched.watch("ann", ONE, [])
    watched.lost("ann")
    watched.forget()
    await until(lambda: not clock.sleeping)
    await watched.watch("ann", BOTH, [])
    watched.lost("ann")
    async with asyncio.timeout(20):
        await until(lambda: clock.sleeping == 1)
        await clock.advance(60)
        await until(lambda: bool(links) and links[0].reported == BOTH)
        await watched.close()


class Away:
    """While its file is there, the process does not start."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> None:
        self.path.touch()

    def end(self) -> None:
        self.path.unlink()


@pytest.fixture
def away(tmp_path: Path) -> Away:
    return Away(tmp_path / "away")


@pytest.fixture
async def crashed(clock: FakeClock, away: Away) -> AsyncIterator[Pool]:
    """The process that Ann's session was has crashed, and is to be asked again in a while."""
    program = 'test ! -e "$1" && exec "$0" -m armory.testing.upstreams.stdio --era legacy'
    args = ("-c", program, sys.executable, str(away.path))
    env = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    spec = UpstreamSpec("up", command="/bin/sh", args=args, env=env, isolation="principal")
    pool = Pool([spec], clock=clock)
    await pool.set_subscriptions("up", ANN, ONE)
    away.begin()
    _, link = await pool.upstream("up").links.opened(ANN, {})
    with pytest.raises(UpstreamUnavailable):
        await link.request(Call("tools/call", {"name": Raw(b'"crash"')}))
    await until(lambda: clock.sleeping == 2)  # with what closes idle sessions
    yield pool
    async with asyncio.timeout(10):
        await pool.close()


async def test_a_lost_session_is_made_again_however_long_its_upstream_is_away(
    crashed: Pool, clock: FakeClock, away: Away
) -> None:
    sessions = crashed.upstream("up").links
    for _ in range(3):
        await clock.advance(60)
        await until(lambda: clock.sleeping == 2)
    assert not sessions.announces(ANN)
    away.end()
    await clock.advance(60)
    await until(lambda: sessions.announces(ANN))
    report = await crashed.request("up", ANN, Call("tools/call", {"name": Raw(b'"report"')}))
    assert plain(report.result)["structuredContent"]["subscribed"] == ["mem://one"]


async def removed(pool: Pool) -> None:
    await pool.update([])


async def closed(pool: Pool) -> None:
    await pool.close()


@pytest.mark.parametrize(("end", "left"), [(removed, 1), (closed, 0)])
async def test_nothing_waits_to_be_made_again_where_an_upstream_goes(
    crashed: Pool, clock: FakeClock, end: Callable[[Pool], Awaitable[None]], left: int
) -> None:
    async with asyncio.timeout(10):
        await end(crashed)
    await until(lambda: clock.sleeping == left)
