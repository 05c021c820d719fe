"""Owner tasks: connect, list, follow changes, come back; one upstream's trouble is its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from msgspec import Raw

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.protocol.session_events import Lost
from armory.tasks import stop
from armory.testing.clients.recording import RecordingObserver
from armory.testing.clock import FakeClock
from armory.testing.upstreams.exchange import Json, Wire, definition
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from armory.upstreams.clock import Clock
from armory.upstreams.owner import LONGEST_PAUSE_S, pause_s
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor
from armory.upstreams.transports.stdio import StdioLink
from tests.leftovers import tasks_of

pytestmark = pytest.mark.anyio

PATHS = ":".join(path for path in sys.path if path)


def stdio(key: str, *options: str, **more: Any) -> UpstreamSpec:
    args = ("-m", "armory.testing.upstreams.stdio", *options)
    return UpstreamSpec(key, command=sys.executable, args=args, env={"PYTHONPATH": PATHS}, **more)


class House:
    """A pool, its supervisor, and what the catalog would have been told."""

    def __init__(self, *specs: UpstreamSpec, clock: Clock | None = None) -> None:
        self.told: list[tuple[str, ServerLists]] = []
        self.pool = Pool(specs)
        self.supervisor = Supervisor(self.pool, self.tell, clock=clock)

    def tell(self, server: str, lists: ServerLists) -> None:
        self.told.append((server, lists))

    def names(self, server: str) -> list[str]:
        return [tool["name"] for tool in self.supervisor.lists()[server].tools]

    def state(self, server: str) -> str:
        return self.supervisor.status()[server].state

    async def close(self) -> None:
        await self.supervisor.stop()
        await self.pool.close()
        assert not tasks_of("/armory/upstreams/")


@pytest.fixture
async def houses() -> AsyncIterator[Callable[..., House]]:
    built: list[House] = []

    def build(*specs: UpstreamSpec, clock: Clock | None = None) -> House:
        built.append(House(*specs, clock=clock))
        return built[-1]

    yield build
    for house in built:
        await house.close()


Build = Callable[..., House]


async def test_a_dead_a_hanging_and_a_crashing_one_delay_nobody(houses: Build) -> None:
    ends = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ends.wait()
        writer.close()

    hanging = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    async with HttpUpstream() as good, HttpUpstream() as gone:
        dead = gone.url
        await gone.stop()
        house = houses(
            UpstreamSpec("good", url=good.url),
            UpstreamSpec("hanging", url=f"http://127.0.0.1:{port}/", connect_timeout_s=60),
            UpstreamSpec("dead", url=dead),
            stdio("crashing", "--exit-at-start"),
            UpstreamSpec("missing", command="no-such-command"),
        )
        await house.supervisor.start()
        assert house.state("good") == "connecting"
        await until(lambda: bool(house.told))
        assert [server for server, _ in house.told] == ["good"]
        assert house.state("hanging") == "connecting"
        counted: list[tuple[int, int]] = []

        def count(done: int, all_of_them: int) -> None:
            counted.append((done, all_of_them))

        ends.set()
        hanging.close()
        assert await house.supervisor.wait_first(15, count)
        assert counted == [(done, 5) for done in range(6)]
        status = house.supervisor.status()
        assert [(key, one.state) for key, one in status.items()] == [
            ("good", "ready"),
            ("hanging", "down"),
            ("dead", "down"),
            ("crashing", "down"),
            ("missing", "down"),
        ]
        assert "no-such-command" in status["missing"].error
        assert "status 3" in status["crashing"].error
        assert (status["good"].era, status["good"].tools) == ("modern", len(good.script.tools))
        await house.close()


async def test_waiting_for_the_first_lists_is_bounded(houses: Build) -> None:
    house = houses(stdio("slow", "--mute-on-unknown", "--era", "legacy"))
    await house.supervisor.start()
    assert await house.supervisor.wait_first(0.05) is False


@pytest.mark.parametrize("eras", ["modern", "legacy"])
async def test_a_change_of_the_lists_is_heard_and_fetched(houses: Build, eras: str) -> None:
    async with HttpUpstream(eras=eras) as server:
        house = houses(UpstreamSpec("up", url=server.url))
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        await until(lambda: bool(server.listens or server.gets))
        server.script.tools.append(definition("new"))
        for _ in range(5):
            await server.announce("notifications/tools/list_changed")
        await until(lambda: "new" in house.names("up"))
        assert len(house.told) == 2
        await server.announce("notifications/tools/list_changed")
        lists = [m for _, m in server.requests if m["method"] == "tools/list"]
        await until(lambda: len(lists) < len(server.requests))
        assert len(house.told) == 2, "lists that did not change are not told"


class Growing(HttpUpstream):
    """Has one more tool when it is listened to, of which it says nothing: nobody listened yet."""

    async def _listen(self, http: web.Request, message: Json) -> web.StreamResponse:
        self.script.tools.append(definition("new"))
        return await super()._listen(http, message)


async def test_what_changes_before_changes_are_announced_is_not_missed(houses: Build) -> None:
    async with Growing(eras="modern") as server:
        house = houses(UpstreamSpec("up", url=server.url))
        await house.supervisor.start()
        await until(lambda: house.state("up") == "ready" and "new" in house.names("up"))


async def test_killed_it_comes_back_and_its_tools_never_left(houses: Build) -> None:
    house = houses(stdio("up", isolation="shared"), stdio("other"))
    observer = RecordingObserver()
    house.pool.observers.add(observer)
    await house.supervisor.start()
    assert await house.supervisor.wait_first(15)
    link = await house.pool.upstream("up").own_link()
    assert isinstance(link, StdioLink)
    hang = Call("tools/call", {"name": Raw(b'"hang"')})
    caught = asyncio.create_task(house.pool.request("up", Owner(ANONYMOUS), hang))
    unharmed = asyncio.create_task(
        house.pool.request("other", Owner(ANONYMOUS), Call("tools/call", {"name": Raw(b'"wait"')}))
    )
    await until(lambda: house.pool.status()["up"].in_flight == 1)
    await until(lambda: house.pool.status()["other"].in_flight == 1)
    before = house.names("up")
    os.kill(link.pid, signal.SIGKILL)
    with pytest.raises(UpstreamUnavailable, match=r"'up'.*SIGKILL"):
        await caught
    assert house.names("up") == before
    await until(lambda: house.state("up") == "down")
    await until(lambda: house.state("up") == "ready")
    assert observer.events == [Lost("up", "", "its process was killed by SIGKILL")]
    assert house.names("up") == before
    assert len([server for server, _ in house.told if server == "up"]) == 1
    assert not unharmed.done()
    free = Call("tools/call", {"name": Raw(b'"free"')})
    await house.pool.request("other", Owner(ANONYMOUS), free)
    assert (await unharmed).error is None


async def test_a_crash_loop_slows_down(houses: Build) -> None:
    clock = FakeClock()
    house = houses(UpstreamSpec("up", command="no-such-command"), clock=clock)
    await house.supervisor.start()
    assert await house.supervisor.wait_first(5)
    for _ in range(20):
        await clock.advance(LONGEST_PAUSE_S)
    attempts = house.supervisor.status()["up"].attempts
    assert 10 < attempts <= 40
    before = attempts
    for _ in range(60):
        await clock.advance(LONGEST_PAUSE_S / 6)
    assert 10 <= house.supervisor.status()["up"].attempts - before <= 20


def test_pauses_grow_to_a_cap_and_vary() -> None:
    assert all(0.25 <= pause_s(1) <= 0.5 for _ in range(50))
    assert all(4 <= pause_s(5) <= 8 for _ in range(50))
    assert all(LONGEST_PAUSE_S / 2 <= pause_s(n) <= LONGEST_PAUSE_S for n in (10, 1_000))
    assert len({pause_s(5) for _ in range(50)}) > 1


async def test_lists_can_be_fetched_at_once(
    houses: Build,
) -> None:
    script = Script(capabilities={"tools": {}})
    async with HttpUpstream(script, eras="modern") as server:
        house = houses(UpstreamSpec("up", url=server.url, health_interval_s=0.05))
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        script.tools.append(definition("new"))
        await house.supervisor.refresh("up")
        assert "new" in house.names("up")
        with pytest.raises(UpstreamUnavailable, match="no upstream 'other'"):
            await house.supervisor.refresh("other")


async def test_lists_are_taken_though_who_asked_for_them_once_more_gives_up(houses: Build) -> None:
    class Held(Script):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.held = list[asyncio.Event]()

        async def _result(self, message: Json, wire: Wire) -> Json:
            page = await super()._result(message, wire)
            if message["method"] == "tools/list" and self.holds:
                self.held.append(asyncio.Event())
                await self.held[-1].wait()
            return page

        holds = False

    script = Held()
    async with HttpUpstream(script, eras="modern") as server:
        house = houses(UpstreamSpec("up", url=server.url))
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        await until(lambda: bool(server.listens))
        script.holds = True
        script.tools.append(definition("new"))
        await server.announce("notifications/tools/list_changed")
        await until(lambda: len(script.held) == 1)
        asking = asyncio.create_task(house.supervisor.refresh("up"))
        await until(lambda: len(script.held) == 2)
        script.held[0].set()
        await until(lambda: "new" in house.names("up"), 5)
        await stop(asking)


async def test_an_upstream_that_announces_nothing_is_listed_again_from_time_to_time(
    houses: Build,
) -> None:
    class Fleeting(Script):
        def _page(self, method: str, params: Json, wire: Wire) -> Json:
            return {**super()._page(method, params, wire), "ttlMs": 0}

    script = Fleeting(capabilities={"tools": {}})
    async with HttpUpstream(script, eras="modern") as server:
        house = houses(UpstreamSpec("up", url=server.url, health_interval_s=0.05))
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        script.tools.append(definition("new"))
        await until(lambda: "new" in house.names("up"))


async def test_a_missed_probe_is_no_death_two_are(houses: Build) -> None:
    async with HttpUpstream(eras="legacy") as server:
        server.offers_get = False
        house = houses(UpstreamSpec("up", url=server.url, health_interval_s=0.1))
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        await until(lambda: any(m.get("method") == "ping" for _, m in server.requests))
        server.fail_with = 503
        await until(lambda: house.state("up") == "down")
        assert "HTTP 503" in house.supervisor.status()["up"].error
        server.fail_with = None
        await until(lambda: house.state("up") == "ready")


async def test_an_expired_session_has_its_lists_fetched_anew(houses: Build) -> None:
    async with HttpUpstream(eras="legacy") as server:
        house = houses(UpstreamSpec("up", url=server.url, health_interval_s=0.1))
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        server.script.tools.append(definition("new"))
        server.sessions.clear()
        await until(lambda: "new" in house.names("up"))


async def test_lists_that_cannot_be_had_keep_the_last_good_ones(houses: Build) -> None:
    async with HttpUpstream(eras="modern") as server:
        house = houses(UpstreamSpec("up", url=server.url))
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        before = house.names("up")
        await until(lambda: bool(server.listens))
        server.script.broken_lists.add("tools/list")
        await server.announce("notifications/tools/list_changed")
        await until(lambda: house.state("up") == "down")
        assert house.names("up") == before
        server.script.broken_lists.clear()
        await until(lambda: house.state("up") == "ready")


async def test_an_update_starts_stops_and_keeps(houses: Build) -> None:
    async with HttpUpstream() as one, HttpUpstream() as two:
        first, second = UpstreamSpec("a", url=one.url), UpstreamSpec("b", url=two.url)
        house = houses(first)
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        await until(lambda: bool(one.listens))
        asked = len(one.requests)
        await house.supervisor.update([second, first])
        assert await house.supervisor.wait_first(10)
        assert list(house.supervisor.status()) == ["b", "a"]
        assert len(one.requests) == asked
        await house.supervisor.update([second])
        assert list(house.supervisor.lists()) == ["b"]


async def test_restarted_it_is_another_process_and_its_tools_never_left(houses: Build) -> None:
    house = houses(stdio("a"), stdio("b"))
    await house.supervisor.start()
    await until(lambda: house.state("a") == house.state("b") == "ready")
    before, other = house.pool.upstream("a"), house.pool.upstream("b")
    names = house.names("a")
    await house.supervisor.restart("a")
    assert house.names("a") == names
    await until(lambda: house.state("a") == "ready")
    assert house.pool.upstream("a") is not before
    assert house.pool.upstream("b") is other
    with pytest.raises(UpstreamUnavailable, match="no upstream 'c'"):
        await house.supervisor.restart("c")


async def test_what_a_retired_upstream_loses_is_not_its_successors_loss(houses: Build) -> None:
    async with HttpUpstream() as server:
        house = houses(UpstreamSpec("up", url=server.url))
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        retired = house.pool.upstream("up")
        await house.supervisor.update([UpstreamSpec("up", url=server.url, call_timeout_s=5)])
        await until(lambda: house.state("up") == "ready")
        retired.observers.on_session_event(Lost("up", "", "drained"))
        await house.supervisor.refresh("up")
        status = house.supervisor.status()["up"]
        assert (status.state, status.attempts, status.restarts) == ("ready", 0, 0)
        house.pool.upstream("up").observers.on_session_event(Lost("up", "", "really"))
        await until(lambda: house.state("up") == "down")
        assert "really" in house.supervisor.status()["up"].error
        await until(lambda: house.supervisor.status()["up"].restarts == 1)


async def test_an_error_that_nobody_foresaw_is_survived(houses: Build) -> None:
    async with HttpUpstream() as server:
        house = houses(UpstreamSpec("up", url=server.url))
        boom = iter([ValueError("a bug in whoever is told")])

        def tell(_server: str, _lists: ServerLists) -> None:
            for error in boom:
                raise error

        house.supervisor = Supervisor(house.pool, tell)
        await house.supervisor.start()
        await until(lambda: "a bug" in house.supervisor.status()["up"].error)
        await until(lambda: house.state("up") == "ready")
