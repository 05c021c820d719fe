"""Upstreams over HTTP that are replaced by an older release of themselves, of an older era."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import eventually, until
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.state import UpstreamStatus
from armory.upstreams.supervisor import Supervisor

pytestmark = pytest.mark.anyio
ANN = Owner(Principal("ann"))


class Kept:
    """An upstream that is modern at first, and the pool that keeps it connected."""

    def __init__(self, server: HttpUpstream) -> None:
        self.server = server
        self.pool = Pool([UpstreamSpec("up", url=server.url, health_interval_s=0.1)])
        self.supervisor = Supervisor(self.pool, lambda _server, _lists: None)

    @property
    def status(self) -> UpstreamStatus:
        return self.supervisor.status()["up"]

    async def answers(self) -> bool:
        """Whether the upstream answers a call."""
        call = Call("tools/call", {"name": Raw(b'"who"')}, name_header="who")
        try:
            return (await self.pool.request("up", ANN, call)).error is None
        except UpstreamUnavailable:
            return False


@asynccontextmanager
async def keeping() -> AsyncGenerator[Kept]:
    async with HttpUpstream(eras="modern") as server:
        kept = Kept(server)
        await kept.supervisor.start()
        try:
            assert await kept.supervisor.wait_first(10)
            await until(lambda: bool(server.listens))
            yield kept
        finally:
            await kept.supervisor.stop()
            await kept.pool.close()


async def test_it_is_called_in_the_era_that_it_speaks_by_now() -> None:
    async with keeping() as kept:
        assert await kept.answers()
        await kept.server.stop()
        kept.server.eras = "legacy"
        await kept.server.start()
        await eventually(kept.answers, 30)
        await until(lambda: kept.status.state == "ready")
        assert kept.status.era == "legacy"
        sessions = kept.pool.status()["up"].sessions
        assert (sessions.open, sessions.shared) == (2, 1)


async def test_one_whose_lists_failed_first_is_asked_anew_what_it_speaks() -> None:
    async with keeping() as kept:
        kept.server.script.broken_lists.add("tools/list")
        await kept.server.announce("notifications/tools/list_changed")
        await until(lambda: kept.status.state == "down")
        kept.server.eras = "legacy"
        kept.server.script.broken_lists.clear()
        await until(lambda: kept.status.state == "ready")
        assert kept.status.era == "legacy"
