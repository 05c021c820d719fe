"""Changed roots of a client: told once for all that comes meanwhile, and within its rate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import RateLimited
from armory.gateway.client_news import ClientNews
from armory.gateway.gateway import Unlimited
from armory.gateway.tasks.ownership import TaskOwnership
from armory.gateway.tasks.register import TaskRegister
from armory.protocol.link import ClientChannel, Owner, Params
from armory.testing.front import ScriptedPool
from armory.testing.waiting import until
from tests.unit.gateway.conftest import NotingClient, StandInSession

pytestmark = pytest.mark.anyio


@dataclass
class SlowPool(ScriptedPool):
    """Upstreams that take their time."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def roots_changed(self, owner: Owner, client: ClientChannel, params: Params) -> None:
        await super().roots_changed(owner, client, params)
        await self.go_on.wait()


class Full(Unlimited):
    """A rate that has no room the first times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked = 0

    async def take(self, principal: Principal) -> None:
        self.asked += 1
        if self.asked <= self.times:
            raise RateLimited("no room", retry_after_s=0.001)


async def test_what_comes_while_upstreams_are_told_is_told_once() -> None:
    pool, session, client = SlowPool(), StandInSession(set()), NotingClient()
    news = ClientNews(pool, Unlimited(), TaskOwnership(pool, TaskRegister()))
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(news.roots_changed(session, client, {}))
        await until(lambda: len(pool.rooted) == 1)
        for number in range(100):
            said = {"_meta": Raw(b"%d" % number)}
            group.create_task(news.roots_changed(session, client, said))
        await asyncio.sleep(0)
        assert len(pool.rooted) == 1
        pool.go_on.set()
    assert len(pool.rooted) == 2
    assert pool.rooted[1][2] == {"_meta": Raw(b"99")}
    await news.roots_changed(session, client, {})
    assert len(pool.rooted) == 3


async def test_they_count_against_the_rate_and_are_told_when_it_has_room() -> None:
    pool, session, client = ScriptedPool(), StandInSession(set()), NotingClient()
    full = Full(3)
    tasks = TaskOwnership(pool, TaskRegister())
    await ClientNews(pool, full, tasks).roots_changed(session, client, {})
    assert (full.asked, len(pool.rooted)) == (4, 1)
