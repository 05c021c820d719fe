"""Upstreams used with callers' own tokens: what goes there between calls, with whose token."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingClient
from armory.testing.clock import FakeClock
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from armory.upstreams.oauth.grants import Passthrough
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

CAPABILITIES = {"roots": {"listChanged": True}}
Make = Callable[..., Awaitable[Pool]]


@pytest.fixture
async def server() -> AsyncIterator[HttpUpstream]:
    async with HttpUpstream(eras="legacy") as server:
        server.tokens = set()
        yield server


@pytest.fixture
async def make(server: HttpUpstream, clock: FakeClock) -> AsyncIterator[Make]:
    pools: list[Pool] = []

    async def making(**more: Any) -> Pool:
        spec = UpstreamSpec("up", url=server.url, auth=Passthrough(), **more)
        pools.append(Pool([spec], clock=clock))
        return pools[-1]

    yield making
    for pool in pools:
        await pool.close()


def owner(
    server: HttpUpstream, name: str, number: int, holds_s: float | None = None
) -> tuple[Owner, str]:
    """A caller with its token of that number, which the upstream accepts from now on, and that."""
    claims = {"aud": server.url, "sub": name, "jti": number}
    parts = ({"alg": "none"}, claims)
    coded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    token = f"{'.'.join(coded)}.x"
    assert server.tokens is not None
    server.tokens.add(token)
    until = None if holds_s is None else time.time() + holds_s
    return Owner(Principal(name, expires_at=until, credential=token)), token


async def call(pool: Pool, owner: Owner, tool: str = "echo") -> None:
    """A call in a task of its own, as every request of a client's has one."""
    params = {"name": Raw(f'"{tool}"'.encode()), "arguments": Raw(b"{}")}
    asked = Call("tools/call", params, client=RecordingClient(CAPABILITIES), name_header=tool)
    reply = await asyncio.create_task(pool.request("up", owner, asked))
    assert reply.error is None


async def test_an_idle_session_is_ended_with_the_newest_token(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    pool = await make(idle_timeout_s=100)
    await call(pool, owner(server, "ann", 1)[0])
    server.tokens = set()
    later, token = owner(server, "ann", 2)
    await call(pool, later)
    await until(lambda: clock.sleeping > 0)
    await clock.advance(200)
    await until(lambda: not server.sessions)
    assert server.carried[-1] == ("DELETE", token)


async def ended_with(make: Make, server: HttpUpstream, clock: FakeClock, *came: Owner) -> str:
    """The token that ends the idle session of somebody who came with several."""
    pool = await make(idle_timeout_s=100)
    for one in (came[0], *came):  # the first makes the session
        await call(pool, one)
    await until(lambda: clock.sleeping > 0)
    await clock.advance(200)
    await until(lambda: server.carried[-1][0] == "DELETE")
    return server.carried[-1][1]


async def test_a_token_that_was_revoked_gives_way_to_one_that_ends_sooner(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    revoked, _ = owner(server, "ann", 1, 3_600)
    holds, token = owner(server, "ann", 2, 600)
    assert await ended_with(make, server, clock, revoked, holds) == token


async def test_a_token_that_has_ended_gives_way_to_one_that_lasts_longer(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    holds, token = owner(server, "ann", 1, 3_600)
    over, _ = owner(server, "ann", 2, -1)
    assert await ended_with(make, server, clock, holds, over) == token


async def test_a_session_that_makes_room_for_another_is_ended_with_its_own_token(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make(max_sessions=1)
    ann, token = owner(server, "ann", 1)
    await call(pool, ann)
    await call(pool, owner(server, "bob", 1)[0])
    await until(lambda: len(server.sessions) == 1)
    assert [carried for method, carried in server.carried if method == "DELETE"] == [token]


async def test_the_get_stream_goes_on_with_the_newest_token(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make()
    await call(pool, owner(server, "ann", 1)[0])
    await asyncio.wait_for(server.get_opened.wait(), 10)
    server.tokens = set()
    later, token = owner(server, "ann", 2)
    await call(pool, later)
    server.get_opened.clear()
    server.end_streams()
    await asyncio.wait_for(server.get_opened.wait(), 10)
    assert server.carried[-1] == ("GET", token)


async def test_changed_roots_are_told_with_the_token_of_their_client(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make()
    ann, token = owner(server, "ann", 1)
    await call(pool, ann)
    client = RecordingClient(CAPABILITIES)
    await asyncio.create_task(pool.roots_changed(ann, client, {}))
    assert server.carried[-1] == ("POST", token)
    assert server.script.received[-1]["method"] == "notifications/roots/list_changed"


async def test_changed_roots_that_cannot_be_told_fail_nobody(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make()
    await call(pool, owner(server, "ann", 1)[0])
    nobody = Owner(Principal("ann"))  # came with another credential, of which no token comes
    await asyncio.create_task(pool.roots_changed(nobody, RecordingClient(CAPABILITIES), {}))
