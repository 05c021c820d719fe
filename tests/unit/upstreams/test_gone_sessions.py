"""What is left of sessions that are gone: nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.clock import FakeClock
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio
ANN = Owner(Principal("ann"), "one")
CALL = {"name": Raw(b'"echo"'), "arguments": Raw(b"{}")}


@pytest.fixture
async def pool(server: HttpUpstream, clock: FakeClock) -> AsyncIterator[Pool]:
    more: dict[str, Any] = {"breaker_failures": 1, "breaker_open_s": 30, "idle_timeout_s": 100}
    pool = Pool([UpstreamSpec("up", url=server.url, isolation="session", **more)], clock=clock)
    yield pool
    await pool.close()


async def failed(pool: Pool, server: HttpUpstream, clock: FakeClock) -> None:
    """A call of a session fails, and its time to be tried again comes."""
    server.fail_with = 500
    with pytest.raises(UpstreamUnavailable):
        await pool.request("up", ANN, Call("tools/call", CALL, name_header="echo"))
    server.fail_with = None
    await clock.advance(31)
    assert pool.status()["up"].breaker == "half_open"


async def test_a_client_that_left_after_failures_does_not_leave_its_upstream_half_open(
    pool: Pool, server: HttpUpstream, clock: FakeClock
) -> None:
    await failed(pool, server, clock)
    await pool.release_session("one")
    assert pool.status()["up"].breaker == "closed"


async def test_a_caller_that_never_comes_back_does_not_either(
    pool: Pool, server: HttpUpstream, clock: FakeClock
) -> None:
    await failed(pool, server, clock)
    await until(lambda: clock.sleeping > 0)
    await clock.advance(130)
    assert pool.status()["up"].breaker == "closed"


async def test_a_session_that_was_opened_for_lists_alone_is_closed_when_it_is_idle(
    pool: Pool, server: HttpUpstream, clock: FakeClock
) -> None:
    await pool.fetch_lists("up", ANN)
    assert len(server.sessions) == 1
    await until(lambda: clock.sleeping > 0)
    await clock.advance(130)
    await until(lambda: not server.sessions)


ASKS_LAST = """
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
            say(id=message["id"], result={"protocolVersion": "2025-11-25", **about})
        case "tools/list":
            say(id=message["id"], result={"tools": []})
        case "server/discover":
            say(id=message["id"], error={"code": -32601, "message": "no such method"})
say(id=1, method="roots/list")
"""
"""A server that asks as soon as its input has ended."""


async def test_what_is_asked_while_a_session_closes_is_asked_of_nobody() -> None:
    pool = Pool([UpstreamSpec("up", command=sys.executable, args=("-c", ASKS_LAST))])
    async with asyncio.timeout(30):
        await pool.fetch_lists_for("up", {"roots": {}})
        await pool.close()
    assert [task for task in asyncio.all_tasks() if "early question" in task.get_name()] == []
