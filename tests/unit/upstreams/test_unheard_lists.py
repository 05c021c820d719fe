"""Changes of lists that an upstream does not announce, or that would not be heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw

from armory.protocol.link import Call
from armory.tasks import stop
from armory.testing.upstreams.exchange import Json, definition
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from armory.upstreams.clock import Clock, SystemClock
from armory.upstreams.gateway_client import OWNER
from armory.upstreams.spec import UpstreamSpec
from tests.unit.upstreams.test_supervisor import House

pytestmark = pytest.mark.anyio


class Leaping(SystemClock):
    """One by which each listing takes a quarter of an hour."""

    def __init__(self, server: HttpUpstream) -> None:
        self._server = server

    def now(self) -> float:
        return super().now() + 900 * asked(self._server, "tools/list")


def asked(server: HttpUpstream, method: str) -> int:
    return sum(message.get("method") == method for _, message in server.requests)


@asynccontextmanager
async def followed(server: HttpUpstream, clock: Clock | None = None) -> AsyncGenerator[House]:
    """What keeps the lists of an upstream that all callers share, and probes it all the time."""
    spec = UpstreamSpec("up", url=server.url, health_interval_s=0.05, isolation="shared")
    house = House(spec, clock=clock)
    try:
        await house.supervisor.start()
        assert await house.supervisor.wait_first(10)
        yield house
    finally:
        await house.close()


@pytest.mark.parametrize(
    ("capabilities", "offers_get"),
    [
        ({"tools": {}}, True),
        ({"tools": {"listChanged": True}, "prompts": {}}, True),
        ({"tools": {"listChanged": True}}, False),
    ],
)
@pytest.mark.parametrize("busy", [False, True])
async def test_one_of_older_revisions_that_is_not_heard_is_listed_again(
    capabilities: Json, offers_get: bool, busy: bool
) -> None:
    script = Script(capabilities=capabilities)
    async with HttpUpstream(script, eras="legacy") as server:
        server.offers_get = offers_get
        async with followed(server) as house:
            calls: list[asyncio.Task[Any]] = []
            if busy:
                hang = Call("tools/call", {"name": Raw(b'"hang"')})
                calls.append(asyncio.create_task(house.pool.request("up", OWNER, hang)))
                await until(lambda: house.pool.upstream("up").own_busy)
            script.tools.append(definition("new"))
            await until(lambda: "new" in house.names("up"))
            script.broken_lists.add("tools/list")
            asked = len(server.requests)
            await until(lambda: len(server.requests) > asked + 10)
            assert (house.state("up"), "new" in house.names("up")) == ("ready", True)
            await stop(*calls)


async def test_one_of_older_revisions_that_is_heard_is_not() -> None:
    async with HttpUpstream(eras="legacy") as server, followed(server) as house:
        await until(lambda: bool(server.gets))

        listed, probed = asked(server, "tools/list"), asked(server, "ping")
        await until(lambda: asked(server, "ping") > probed + 3)
        assert asked(server, "tools/list") <= listed + 1  # once where the stream took its time
        assert house.state("up") == "ready"


async def test_long_lists_are_not_fetched_all_the_time() -> None:
    script = Script(capabilities={"tools": {}})
    async with (
        HttpUpstream(script, eras="legacy") as server,
        followed(server, Leaping(server)),
    ):
        await until(lambda: asked(server, "ping") > 5)
        assert asked(server, "tools/list") == 2
