"""Legacy sessions over HTTP that the upstream forgets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingObserver, plain
from armory.testing.upstreams.exchange import Json, Wire
from armory.testing.upstreams.http import ScriptedUpstream
from armory.testing.upstreams.script import Script
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

ANN = Owner(Principal("ann"))


class Reluctant(Script):
    """Shakes hands only while it is `willing`, and refuses the next `refusals` of them."""

    def __init__(self) -> None:
        super().__init__()
        self.willing, self.asked = asyncio.Event(), asyncio.Event()
        self.willing.set()
        self.refusals = 0

    async def answer(self, message: Json, wire: Wire) -> Json | None:
        if message["method"] == "initialize":
            self.asked.set()
            await self.willing.wait()
            if self.refusals:
                self.refusals -= 1
                error = {"code": -32603, "message": "not yet"}
                return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return await super().answer(message, wire)


@pytest.fixture
def script() -> Reluctant:
    return Reluctant()


@pytest.fixture
async def server(script: Reluctant) -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(script, eras="legacy") as server:
        yield server


@pytest.fixture
async def pool(server: ScriptedUpstream) -> AsyncIterator[Pool]:
    pool = Pool([UpstreamSpec("up", url=server.url)])
    yield pool
    await pool.close()


async def call(pool: Pool, tool: str = "echo", **more: Any) -> Any:
    params = {"name": Raw(f'"{tool}"'.encode()), "arguments": Raw(b"{}")}
    reply = await pool.request("up", ANN, Call("tools/call", params, name_header=tool, **more))
    return plain(reply.result)


async def test_a_renewal_outlives_the_call_that_began_it(
    pool: Pool, server: ScriptedUpstream, script: Reluctant
) -> None:
    await call(pool)
    server.sessions.clear()
    script.asked.clear()
    script.willing.clear()
    first, other = (asyncio.create_task(call(pool)) for _ in range(2))
    await asyncio.wait_for(script.asked.wait(), 10)
    first.cancel()
    await asyncio.wait([first], timeout=10)
    assert first.cancelled()
    script.willing.set()
    assert (await other)["isError"] is False
    assert (await call(pool))["isError"] is False
    assert len(server.sessions) == 1


async def test_a_session_that_cannot_be_renewed_is_opened_anew_by_the_next_call(
    pool: Pool, server: ScriptedUpstream, script: Reluctant
) -> None:
    observer = RecordingObserver()
    pool.observers.add(observer)
    await call(pool)
    server.sessions.clear()
    script.refusals = 1
    with pytest.raises(UpstreamUnavailable, match="not yet"):
        await call(pool)
    assert [type(event).__name__ for event in observer.events][:1] == ["Lost"]
    assert (await call(pool))["isError"] is False
    assert pool.status()["up"].breaker == "closed"


async def test_a_session_that_is_closed_while_it_is_renewed_ends_the_calls_that_wait(
    pool: Pool, server: ScriptedUpstream, script: Reluctant
) -> None:
    await call(pool)
    server.sessions.clear()
    script.asked.clear()
    script.willing.clear()
    waiting = asyncio.create_task(call(pool))
    await asyncio.wait_for(script.asked.wait(), 10)
    await (await pool.link("up", ANN)).close()
    with pytest.raises(UpstreamUnavailable, match="the session is closed"):
        await asyncio.wait_for(waiting, 10)
