"""Calls as tasks: who is told of them, and tools that take no others, called plainly."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.gateway.calls import task_tools
from armory.gateway.calls.task_tools import drive
from armory.protocol.link import Params, Reply
from armory.protocol.versions import Era

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
WORKING = Reply(Raw(b'{"task":{"taskId":"t","status":"working","pollInterval":1}}'))


class Leaving:
    """A server that makes a task and is gone when it is asked to cancel it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def send(self, method: str, params: Params) -> Reply:
        del params
        if method == "tools/call":
            return WORKING
        if method == "tasks/get":
            self.asked.set()
            await asyncio.Event().wait()
        raise UpstreamUnavailable("upstream 'up': it is gone", upstream="up")


async def test_a_call_that_is_cancelled_stays_so_where_its_server_cannot_be_told() -> None:
    server = Leaving()
    driving = asyncio.create_task(drive("up", {}, server.send))
    await asyncio.wait_for(server.asked.wait(), 10)
    driving.cancel()
    await asyncio.wait([driving], timeout=10)
    assert driving.cancelled()


async def test_a_task_that_takes_too_long_is_said_to_where_its_server_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_tools, "WAIT_S", 0.1)
    with pytest.raises(UpstreamTimeout, match="its task was not done"):
        async with asyncio.timeout(10):
            await drive("up", {}, Leaving().send)


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_task_of_which_nothing_can_be_heard_any_more_is_cancelled(refuses: bool) -> None:
    """Its call has ended, so that nobody would ever fetch its result."""
    heard: list[str] = []

    async def send(method: str, params: Params) -> Reply:
        heard.append(method)
        if method == "tools/call":
            return WORKING
        if method == "tasks/get" and refuses:
            return Reply(error=Raw(b'{"code":-32603,"message":"busy"}'))
        if method == "tasks/get":
            raise UpstreamTimeout("upstream 'up' did not answer", upstream="up")
        assert params == {"taskId": Raw(b'"t"')}
        return Reply(Raw(b"{}"))

    if refuses:
        assert (await drive("up", {}, send)).error is not None
    else:
        with pytest.raises(UpstreamTimeout):
            await drive("up", {}, send)
    assert heard == ["tools/call", "tasks/get", "tasks/cancel"]


async def test_calls_as_tasks_are_declared_to_clients_of_their_era(bench: Bench) -> None:
    """Whoever is not told of them must not ask for any (2025-11-25)."""
    upstream = bench.pool.upstreams["up"]
    calls = {"requests": {"tools": {"call": {}}}}

    def declared(tasks: Any, era: Era = "legacy") -> Any:
        capabilities = {"tools": {}, "tasks": tasks}
        upstream.lists = replace(upstream.lists, capabilities=capabilities)
        bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
        described = bench.gateway.description.of_endpoint(bench.context(era))
        return described["capabilities"].get("tasks")

    assert declared({"list": {}, **calls}) == calls
    assert declared({"list": {}, "cancel": {}, **calls}) == {"cancel": {}, **calls}
    assert declared({"cancel": {}, **calls}, "modern") is None
    for without in ({"list": {}, "cancel": {}}, {"requests": {"tools": []}}, {"requests": 3}, []):
        assert declared(without) is None
