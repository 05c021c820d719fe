"""How sessions end, whatever stands in the way."""

from __future__ import annotations

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.gateway.gateway import Gateway
from armory.protocol.jsonrpc import decode, request
from armory.protocol.link import Reply
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    WordRetriever,
    raws,
    refused,
    serving,
)
from armory.testing.waiting import until
from armory.wire.caller import Caller
from armory.wire.http.settings import HttpSettings
from armory.wire.sessions.registry import Sessions
from armory.wire.sessions.session import Session

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}
MESSAGE = decode(request(1, "initialize", raws(HELLO)))


class Stubborn(ScriptedPool):
    """A pool that fails where a session is let go, so many times."""

    failing = 0

    async def release_session(self, session_id: str) -> None:
        if self.failing:
            self.failing -= 1
            raise RuntimeError("a defect")
        await super().release_session(session_id)


async def opened(sessions: Sessions) -> Session:
    return await sessions.open(Caller(ANONYMOUS), MESSAGE, raws(HELLO))


def behind(pool: ScriptedPool) -> Gateway:
    async def nothing(*_: object) -> Reply:
        return refused(-32601, "Method not found")

    pool.upstreams["up"] = ScriptedUpstream(ServerLists(), nothing)
    return Gateway(pool, WordRetriever())


async def test_a_session_that_cannot_be_ended_does_not_keep_the_others() -> None:
    pool = Stubborn()
    pool.failing = 1
    async with serving(behind(pool), settings=HttpSettings(session_idle_s=0.05)) as (_, edge):
        for _ in range(3):
            await opened(edge.sessions)
        await until(lambda: len(edge.sessions) == 0)
        assert len(pool.released) == 2
