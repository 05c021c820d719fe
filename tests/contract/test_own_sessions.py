"""What a session tells that one client, or one principal, has to itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from armory.domain.principal import ANONYMOUS
from armory.http1.deadlines import CallDeadline
from armory.protocol.link import Call, ClientChannel, Owner
from armory.testing.clients.recording import RecordingClient
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.pending import Pending
from armory.upstreams.session.stateful import StatefulLink
from tests.contract.links import BOUND_S, Rig, open_rig

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["stdio-legacy", "stdio-modern"])
async def process(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """An upstream over stdio."""
    async for one in open_rig(request.param):
        yield one


def watch(link: BaseLink, sent: Callable[[Call], None]) -> None:
    """Have each call that goes over the link seen first."""
    assert isinstance(link, StatefulLink)
    opened = link.requests.open

    def watched(call: Call, scope: CallDeadline | None = None) -> Pending:
        sent(call)
        return opened(call, scope)

    link.requests.open = watched


async def test_one_more_subscriber_is_announced(legacy: Rig) -> None:
    uris = frozenset({"mem://one"})
    await legacy.pool.set_subscriptions("up", legacy.owner, uris)
    link = await legacy.link(legacy.owner)
    sent: list[str] = []
    watch(link, lambda call: sent.append(call.method))
    await legacy.pool.set_subscriptions("up", legacy.owner, uris, "mem://one")
    assert sent == ["resources/subscribe"]
    await legacy.pool.set_subscriptions("up", legacy.owner, uris)
    assert sent == ["resources/subscribe"]


async def test_a_session_that_is_open_announces_its_lists(legacy: Rig) -> None:
    owner = Owner(ANONYMOUS, "one", RecordingClient({"roots": {}}))
    await legacy.pool.upstream("up").own_link()
    assert not legacy.pool.announces("up", owner)
    async with asyncio.timeout(BOUND_S):
        await legacy.link(owner)
    assert legacy.pool.announces("up", owner)
    assert not legacy.pool.announces("up", legacy.owner)


async def test_a_process_of_ones_own_announces_what_it_lists(process: Rig) -> None:
    await process.call("grow")
    await process.observer.until(lambda: bool(process.observer.notified))
    key = process.pool.key("up", process.owner)
    assert process.observer.notified == [("up", key, "notifications/tools/list_changed", {})]
    assert process.pool.announces("up", process.owner)


async def test_who_watches_a_resource_hears_the_log_all_the_same(process: Rig) -> None:
    """It belongs to the only call, beside which the process may be listened to."""
    await process.pool.set_subscriptions("up", process.owner, frozenset({"mem://one"}))
    client = RecordingClient(log_level="info")
    await process.call("log", client=client)
    assert [p["level"] for _, p in client.notes] == ["info", "error"]


async def test_its_client_is_asked_in_the_names_that_it_knows(legacy: Rig) -> None:
    """Also where no call is in flight, whose channel would know them."""
    told, shown = (RecordingClient({"roots": {}}) for _ in range(2))
    exposed: list[tuple[object, str]] = []

    def expose(client: ClientChannel, server: str) -> ClientChannel:
        exposed.append((client, server))
        return shown

    owner = Owner(ANONYMOUS, "one", told, expose)
    async with asyncio.timeout(BOUND_S):
        link = await legacy.link(owner)
    assert isinstance(link, StatefulLink)
    assert link.client is shown
    assert exposed == [(told, "up")]


async def test_a_log_level_is_told_at_once(legacy: Rig) -> None:
    client = RecordingClient({"roots": {}})
    owner = Owner(ANONYMOUS, "one", client)

    async def told() -> list[str]:
        said = await legacy.call("report", client=client, owner=owner)
        return [m for m in said["structuredContent"]["methods"] if m == "logging/setLevel"]

    legacy.pool.log_level_changed(owner, "debug")  # no session is open yet
    assert await told() == []
    legacy.pool.log_level_changed(owner, "debug")
    legacy.pool.log_level_changed(owner, "error")  # the client is told less, the upstream nothing
    async with asyncio.timeout(BOUND_S):
        while not await told():
            pass
    assert len(await told()) == 1


async def test_a_log_level_that_cannot_be_told_is_told_later(legacy: Rig) -> None:
    owner = Owner(ANONYMOUS, "one", RecordingClient({"roots": {}}))
    link = await legacy.link(owner)
    failed, levels = asyncio.Event(), list[bytes]()

    def sent(call: Call) -> None:
        if not failed.is_set():
            failed.set()
            raise link.unavailable("it is away")
        levels.append(bytes(call.params["level"]))

    watch(link, sent)
    legacy.pool.log_level_changed(owner, "debug")
    await asyncio.wait_for(failed.wait(), BOUND_S)
    await link.subscriptions.ensure_log_level("debug")
    assert levels == [b'"debug"']


@pytest.mark.parametrize("legacy", ["stdio-legacy"], indirect=True)
async def test_no_call_overtakes_the_one_that_has_the_log_level_set(legacy: Rig) -> None:
    client = RecordingClient(log_level="debug")
    texts = [str(number) for number in range(10)]
    async with asyncio.timeout(BOUND_S):
        await asyncio.gather(*(legacy.call("echo", {"text": t}, client=client) for t in texts))
        said = await legacy.call("report", client=client)
    assert said["structuredContent"]["texts"] == texts


async def test_a_session_is_declared_no_tasks_of_a_modern_client(legacy: Rig) -> None:
    """Some declare the same in either era; the server would ask for the client's tasks."""
    extensions = {"io.modelcontextprotocol/tasks": {}, "com.example/x": {}}
    tasks = {"requests": {"elicitation": {"create": {}}}}
    client = RecordingClient({"elicitation": {}, "tasks": tasks, "extensions": extensions})
    told = await legacy.call("who", client=client)
    declared = {"elicitation": {}, "extensions": {"com.example/x": {}}}
    assert told["structuredContent"]["capabilities"] == declared
