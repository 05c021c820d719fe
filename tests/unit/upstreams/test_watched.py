"""Watched resources, where an upstream refuses, dies or is replaced."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from armory.domain.principal import Principal
from armory.protocol.link import Owner, Refused
from armory.testing.clock import FakeClock
from armory.testing.upstreams.http import ScriptedUpstream
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

ANN = Owner(Principal("ann"))
BOTH, ONE = frozenset({"mem://one", "mem://two"}), frozenset({"mem://one"})


@pytest.fixture
async def server() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(eras="legacy") as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def pool(server: ScriptedUpstream, clock: FakeClock) -> AsyncIterator[Pool]:
    pool = Pool([UpstreamSpec("up", url=server.url, idle_timeout_s=100)], clock=clock)
    yield pool
    await pool.close()


async def test_what_nobody_watches_any_more_holds_no_session_though_the_upstream_refuses(
    pool: Pool, server: ScriptedUpstream, clock: FakeClock
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
