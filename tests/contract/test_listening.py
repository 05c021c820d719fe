"""A `subscriptions/listen` for one client lasts beside calls, over every transport that has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from armory.errors import UpstreamUnavailable
from armory.protocol.capabilities import TASKS_EXTENSION
from armory.protocol.link import FOREVER_S, Call
from armory.testing.clients.recording import RecordingClient
from armory.testing.waiting import until
from tests.contract.links import BOUND_S, MODERN, Rig, open_rig, raw

pytestmark = pytest.mark.anyio
TAKES_TASKS: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}
NEWS = "notifications/tasks"


@pytest.fixture(params=MODERN)
async def modern(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async for one in open_rig(request.param):
        yield one


@pytest.fixture
async def process() -> AsyncIterator[Rig]:
    async for one in open_rig("stdio-modern"):
        yield one


def listen(rig: Rig, client: RecordingClient) -> asyncio.Task[Any]:
    wanted = {"notifications": raw({"taskIds": ["t"]})}
    call = Call("subscriptions/listen", wanted, client=client, timeout_s=FOREVER_S)
    return asyncio.create_task(rig.pool.listen("up", rig.owner, call))


async def test_it_hears_of_tasks_and_takes_no_calls_place(modern: Rig) -> None:
    await modern.reconfigure(max_concurrency=1)
    client = RecordingClient(TAKES_TASKS)
    listening = listen(modern, client)
    await until(lambda: bool(client.notes))
    method, said = client.notes[0]
    assert method == "notifications/subscriptions/acknowledged"
    assert said["notifications"] == {"taskIds": ["t"]}
    async with asyncio.timeout(BOUND_S):
        await modern.call("touch", {"method": NEWS, "uri": "mem://one"})
    await until(lambda: len(client.notes) == 2)
    assert (client.notes[1][0], client.notes[1][1]["uri"]) == (NEWS, "mem://one")
    assert (await modern.report())["started"]
    listening.cancel()
    await asyncio.wait([listening])
    if modern.server is not None:
        server = modern.server
        await until(lambda: not any("taskIds" in wanted for _, wanted in server.listens.values()))


async def test_it_ends_with_its_upstream(modern: Rig) -> None:
    client = RecordingClient(TAKES_TASKS)
    listening = listen(modern, client)
    await until(lambda: bool(client.notes))
    await modern.pool.update([])
    if modern.server is not None:
        modern.server.end_streams()
    with pytest.raises(UpstreamUnavailable):
        async with asyncio.timeout(BOUND_S):
            await listening


async def test_a_subscription_that_its_upstream_cancels_is_begun_anew(modern: Rig) -> None:
    link = await modern.pool.upstream("up").own_link()
    assert await link.subscriptions.watch_lists()

    async def call(tool: str) -> None:
        await link.request(Call("tools/call", {"name": raw(tool)}, name_header=tool))

    await call("end_listening")
    changed = "notifications/tools/list_changed"
    await modern.observer.until(lambda: changed in modern.observer.methods)  # while it was away
    await call("grow")
    await modern.observer.until(lambda: modern.observer.methods.count(changed) == 2)


async def test_news_of_a_subscription_that_has_ended_do_not_name_it(process: Rig) -> None:
    """They were under way when another one took its place."""
    link = await process.pool.upstream("up").own_link()
    await link.subscriptions.set_resources(frozenset({"mem://one"}))
    await link.subscriptions.set_resources(frozenset())
    await link.request(Call("tools/call", {"name": raw("touch")}, name_header="touch"))
    await until(lambda: bool(process.observer.notified))
    told = ("up", "", "notifications/resources/updated", {"uri": "mem://one"})
    assert process.observer.notified == [told]
