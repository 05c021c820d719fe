"""What clients watch stays watched when its upstream is replaced; nothing is kept for nobody."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import InvalidRequest
from armory.gateway.changes import resource_watches
from armory.gateway.endpoint import ALL
from armory.gateway.gateway import Gateway
from armory.gateway.subscription import Subscription
from armory.protocol.link import Params
from armory.testing.clients.recording import RecordingClient
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor

pytestmark = pytest.mark.anyio
ONE, TWO = "mem://one", "mem://two"


class Bench:
    """A gateway in front of one upstream over HTTP."""

    def __init__(self, server: HttpUpstream, **more: Any) -> None:
        self.server = server
        self.spec = UpstreamSpec("up", url=server.url, **more)
        self.pool = Pool([self.spec])
        self.gateway = Gateway(self.pool)
        self.pool.observers.add(self.gateway)
        self.watches = self.gateway.changes.resources

    def client(
        self,
        principal: Principal = ANONYMOUS,
        session: str | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> Subscription:
        def heard(_method: str, _params: Params) -> None:
            pass

        client = None if capabilities is None else RecordingClient(capabilities)
        subscription = Subscription(principal, ALL, heard, session, client=client)
        self.gateway.changes.add(subscription)
        return subscription

    async def reload(self, **more: Any) -> None:
        self.server.script.received.clear()
        self.spec = replace(self.spec, **more)
        await self.pool.update([self.spec])

    def told(self, method: str) -> Sequence[Any]:
        """What the upstream was told since the reload."""
        received = self.server.script.received
        return [m["params"]["uri"] for m in received if m.get("method") == method]

    def reports(self) -> list[str]:
        """What the sessions since the reload are to report, sorted."""
        received = self.server.script.received
        listens = [m["params"] for m in received if m.get("method") == "subscriptions/listen"]
        if listens:  # each stands in for the one before
            wanted = [listen["notifications"].get("resourceSubscriptions") for listen in listens]
            return sorted(next((uris for uris in reversed(wanted) if uris), ()))
        return sorted(self.told("resources/subscribe"))


@asynccontextmanager
async def serving(eras: str = "legacy", **more: Any) -> AsyncGenerator[Bench]:
    async with HttpUpstream(eras=eras) as server:
        bench = Bench(server, **more)
        yield bench
        await bench.gateway.close()
        await bench.pool.close()


@pytest.mark.parametrize("isolation", ["shared", "principal", "session"])
@pytest.mark.parametrize("eras", ["legacy", "modern"])
async def test_it_is_watched_again_after_a_reload(eras: str, isolation: str) -> None:
    async with serving(eras, isolation=isolation) as bench:
        client = bench.client(session="one" if eras == "legacy" else None)
        for uri in (ONE, TWO):
            await bench.watches.add(client, "up", uri)
        await bench.reload(call_timeout_s=77.0)
        await until(lambda: bench.reports() == [ONE, TWO])
        await bench.gateway.changes.remove(client)
        assert len(bench.watches) == 0


@pytest.mark.parametrize("capabilities", [{}, {"sampling": {}}])
async def test_it_is_watched_again_where_the_upstream_speaks_another_era_by_now(
    capabilities: dict[str, Any],
) -> None:
    async with serving(isolation="principal") as bench:
        supervisor = Supervisor(bench.pool, lambda _server, _lists: None)
        await supervisor.start()
        await supervisor.wait_first(10)
        client = bench.client(Principal("ann"), "one", capabilities)
        await bench.watches.add(client, "up", ONE)
        await bench.server.stop()
        bench.server.eras = "modern"
        bench.server.sessions.clear()
        bench.server.script.received.clear()
        await bench.server.start()
        await until(lambda: bench.reports() == [ONE], 60)
        await until(lambda: supervisor.status()["up"].state == "ready", 60)
        await supervisor.stop()


async def test_a_restart_opens_no_session_for_it_where_one_is_shared() -> None:
    async with serving(isolation="shared") as bench:
        supervisor = Supervisor(bench.pool, lambda _server, _lists: None)
        await supervisor.start()
        await supervisor.wait_first(10)
        await bench.watches.add(bench.client(), "up", ONE)
        bench.server.script.received.clear()
        await supervisor.restart("up")
        await until(lambda: bench.told("resources/subscribe") == [ONE])
        begun = [m for m in bench.server.script.received if m.get("method") == "initialize"]
        assert len(begun) == 1
        await supervisor.stop()


async def test_it_is_watched_as_soon_as_the_new_upstream_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource_watches, "_FIRST_PAUSE_S", 0.01)
    async with serving() as bench:
        leaving, staying = bench.client(), bench.client()
        await bench.watches.add(leaving, "up", ONE)
        await bench.watches.add(staying, "up", TWO)
        await bench.server.stop()
        bench.server.sessions.clear()
        for timeout_s in (77.0, 78.0):
            await bench.reload(call_timeout_s=timeout_s)
            await asyncio.sleep(0)
        await bench.gateway.changes.remove(leaving)
        await bench.server.start()

        def watched() -> set[str]:  # who left while it was being watched for may be told late
            subscribed, ended = (
                bench.told("resources/subscribe"),
                bench.told("resources/unsubscribe"),
            )
            return {*subscribed} - {*ended}

        await until(lambda: watched() == {TWO})


async def test_sessions_that_serve_others_from_now_on_know_what_all_of_them_watch() -> None:
    async with serving(isolation="principal") as bench:
        ann, bob = bench.client(Principal("ann")), bench.client(Principal("bob"))
        await bench.watches.add(ann, "up", ONE)
        await bench.reload(isolation="shared")
        await until(lambda: bench.told("resources/subscribe") == [ONE])
        await bench.watches.add(bob, "up", TWO)
        assert bench.told("resources/subscribe") == [ONE, TWO]
        await bench.watches.remove(ann, "up", ONE)
        await bench.watches.remove(bob, "up", TWO)
        assert bench.told("resources/unsubscribe") == [ONE, TWO]
        assert len(bench.watches) == 0


async def test_who_waits_while_other_sessions_come_is_watched_for_by_those() -> None:
    async with serving(isolation="principal") as bench:
        ann = [bench.client(Principal("ann")) for _ in range(2)]
        bob = bench.client(Principal("bob"))
        bench.server.script.silent.add("resources/subscribe")
        first = asyncio.create_task(bench.watches.add(ann[0], "up", "mem://first"))
        await until(lambda: bench.told("resources/subscribe") == ["mem://first"])
        waiting = asyncio.create_task(bench.watches.add(ann[1], "up", ONE))
        await asyncio.sleep(0)
        await bench.reload(isolation="shared")
        bench.server.script.silent.clear()
        first.cancel()
        async with asyncio.timeout(20):
            await waiting
        await bench.watches.add(bob, "up", TWO)
        assert not bench.told("resources/unsubscribe")
        await bench.watches.remove(ann[1], "up", ONE)
        await bench.watches.remove(bob, "up", TWO)
        await asyncio.wait([first], timeout=20)
        assert len(bench.watches) == 0


async def test_what_a_new_upstream_refuses_can_be_asked_for_again() -> None:
    async with serving() as bench:
        client = bench.client()
        await bench.watches.add(client, "up", ONE)
        bench.server.script.broken_lists.add("resources/subscribe")
        await bench.reload(call_timeout_s=77.0)
        await until(lambda: client.uris == set())
        bench.server.script.broken_lists.clear()
        await bench.watches.add(client, "up", ONE)
        assert bench.told("resources/subscribe") == [ONE, ONE]


async def test_a_removed_upstream_is_watched_by_nobody() -> None:
    async with serving() as bench:
        client = bench.client()
        await bench.watches.add(client, "up", ONE)
        await bench.pool.update([])
        await until(lambda: client.uris == set())
        assert len(bench.watches) == 0
        await bench.reload()
        await bench.watches.add(client, "up", ONE)
        assert bench.told("resources/subscribe") == [ONE]


async def test_what_ended_keeps_no_lock() -> None:
    async with serving(isolation="session") as bench:
        for number in range(3):
            client = bench.client(session=str(number))
            await bench.watches.add(client, "up", ONE)
            await bench.gateway.changes.remove(client)
        gc.collect()
        assert len(bench.watches._locks) == 0  # pyright: ignore[reportPrivateUsage]


async def test_an_upstream_that_does_not_answer_keeps_nobody_who_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor the sessions that expire after that one; what it was told it was told at once."""
    monkeypatch.setattr(resource_watches, "_LEAVING_S", 0.05)
    async with serving() as bench:
        ann, bob = bench.client(session="ann"), bench.client(session="bob")
        for uri in (ONE, TWO):
            await bench.watches.add(ann, "up", uri)
        await bench.watches.add(bob, "up", TWO)
        bench.server.script.silent.add("resources/unsubscribe")
        async with asyncio.timeout(10):
            await bench.gateway.changes.remove(ann)
        assert ann.uris == set()
        await until(lambda: bench.told("resources/unsubscribe") == [ONE])
        bench.server.script.silent.clear()
        async with asyncio.timeout(10):
            await bench.gateway.changes.remove(bob)
        assert len(bench.watches) == 0


async def test_of_many_who_leave_an_upstream_that_does_not_answer_one_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource_watches, "_LEAVING_S", 60.0)
    async with serving() as bench:
        clients = [bench.client(session=str(number)) for number in range(20)]
        for number, client in enumerate(clients):
            await bench.watches.add(client, "up", f"mem://{number}")
        bench.server.script.silent.add("resources/unsubscribe")
        first = asyncio.create_task(bench.gateway.changes.remove(clients[0]))
        await until(lambda: len(bench.told("resources/unsubscribe")) == 1)
        async with asyncio.timeout(30):
            for client in clients[1:]:
                await bench.gateway.changes.remove(client)
        assert not first.done()
        first.cancel()


async def test_what_all_clients_watch_is_bounded_by_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource_watches, "_ALL_CHARS", 4_000)
    uris = [f"mem://{number}/{'x' * 900}" for number in range(3)]
    ann, bob, cy = (Principal(name) for name in ("ann", "bob", "cy"))
    async with serving() as bench:
        first, second = bench.client(ann, "one"), bench.client(ann, "two")
        await bench.watches.add(first, "up", uris[0])
        await bench.watches.add(second, "up", uris[1])
        with pytest.raises(InvalidRequest, match="too long in all"):
            await bench.watches.add(second, "up", uris[2])
        assert uris[2] not in {uri for _, uri in second.uris}
        others = bench.client(bob, "three")
        for uri in uris[:2]:
            await bench.watches.add(others, "up", uri)
        third = bench.client(cy, "four")
        with pytest.raises(InvalidRequest, match="too long in all"):
            await bench.watches.add(third, "up", uris[0])
        await bench.watches.remove(others, "up", uris[0])
        await bench.watches.remove(others, "up", uris[0])
        await bench.watches.add(third, "up", uris[0])
        for client in (first, second, others, third):
            await bench.gateway.changes.remove(client)
        for client in (bench.client(ann, "five"), bench.client(bob, "six")):
            for uri in uris[:2]:
                await bench.watches.add(client, "up", uri)


async def test_how_many_a_caller_and_a_session_watch_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each further one is compared with all, and a modern upstream is told of all again."""
    monkeypatch.setattr(resource_watches, "OF_ONE_CALLER", 2)
    monkeypatch.setattr(resource_watches, "OF_ONE_SESSION", 3)
    async with serving(isolation="shared") as bench:
        ann = [bench.client(Principal("ann"), name) for name in ("one", "two")]
        for client in ann:
            await bench.watches.add(client, "up", "mem://1")
        with pytest.raises(InvalidRequest, match="your clients watch 2 resources already"):
            await bench.watches.add(ann[0], "up", "mem://2")
        bob, cy = (bench.client(Principal(name), name) for name in ("bob", "cy"))
        await bench.watches.add(bob, "up", "mem://2")
        await bench.watches.add(bob, "up", "mem://3")
        with pytest.raises(InvalidRequest, match="3 resources of 'up' are watched already"):
            await bench.watches.add(cy, "up", "mem://4")
        await bench.watches.add(cy, "up", "mem://3")
        await bench.watches.remove(bob, "up", "mem://2")
        await bench.watches.add(cy, "up", "mem://4")
        await bench.gateway.changes.remove(ann[1])
        await bench.watches.add(ann[0], "up", "mem://3")
