"""Servers that announce changed lists whenever they are listed, or all the time."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from armory.testing.upstreams.exchange import Json, Wire, definition
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor

pytestmark = pytest.mark.anyio
LISTED = 6


@dataclass
class Restless(Script):
    """A server that announces changed tools whenever they are listed."""

    server: HttpUpstream | None = None
    flapping: bool = False
    listed: int = 0

    async def _result(self, message: Json, wire: Wire) -> Json:
        answer = await super()._result(message, wire)
        if message["method"] == "tools/list" and self.server is not None:
            self.listed += 1
            if self.flapping and self.listed % 2:
                answer["tools"] = [definition("other")]
            await self.server.announce("notifications/tools/list_changed")
        return answer


@pytest.mark.parametrize("flapping", [False, True])
async def test_they_are_listed_less_and_less_often(flapping: bool) -> None:
    script = Restless(flapping=flapping)
    async with HttpUpstream(script, eras="legacy") as server:
        pool = Pool([UpstreamSpec("up", url=server.url)])
        supervisor = Supervisor(pool, lambda _server, _lists: None)
        try:
            await supervisor.start()
            assert await supervisor.wait_first(10)
            await until(lambda: bool(server.gets))
            script.server, began = server, time.monotonic()
            await server.announce("notifications/tools/list_changed")
            await until(lambda: script.listed >= LISTED)
            waited_s = time.monotonic() - began
        finally:
            await supervisor.stop()
            await pool.close()
    assert waited_s > 0.05 + 0.1 + 0.2 + 0.4 + 0.8


async def test_a_session_that_is_lost_meanwhile_is_begun_anew_at_once() -> None:
    script = Restless()
    async with HttpUpstream(script, eras="legacy") as server:
        pool = Pool([UpstreamSpec("up", url=server.url)])
        supervisor = Supervisor(pool, lambda _server, _lists: None)
        try:
            await supervisor.start()
            assert await supervisor.wait_first(10)
            await until(lambda: bool(server.gets))
            script.server = server
            await server.announce("notifications/tools/list_changed")
            await until(lambda: script.listed >= LISTED)
            began = time.monotonic()
            link = await pool.upstream("up").own_link()
            link.lost("gone")
            await until(lambda: supervisor.status()["up"].state == "down")
            assert time.monotonic() - began < 1.0
        finally:
            await supervisor.stop()
            await pool.close()
