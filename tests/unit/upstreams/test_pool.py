"""Which session serves whom, and within which bounds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamOverloaded, UpstreamPaused, UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingClient, RecordingObserver, plain
from armory.testing.clock import FakeClock
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from armory.upstreams.link_pool import PROFILES_PER_OWNER
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

ANN, BOB = Owner(Principal("ann")), Owner(Principal("bob"))
Make = Callable[..., Awaitable[Pool]]
PATHS = ":".join(path for path in sys.path if path)


@pytest.fixture
def observer() -> RecordingObserver:
    return RecordingObserver()


@pytest.fixture
async def make(
    server: HttpUpstream, clock: FakeClock, observer: RecordingObserver
) -> AsyncIterator[Make]:
    pools: list[Pool] = []

    async def making(**more: Any) -> Pool:
        settings: dict[str, Any] = {"url": server.url, **more}
        spec = UpstreamSpec("up", **settings)
        pools.append(Pool([spec], clock=clock))
        pools[-1].observers.add(observer)
        return pools[-1]

    yield making
    for pool in pools:
        await pool.close()


async def call(pool: Pool, tool: str, owner: Owner = ANN, **more: Any) -> Any:
    params = {"name": Raw(f'"{tool}"'.encode()), "arguments": more.pop("arguments", Raw(b"{}"))}
    reply = await pool.request("up", owner, Call("tools/call", params, name_header=tool, **more))
    return plain(reply.result)


async def session_of(pool: Pool, owner: Owner, **more: Any) -> str:
    return (await call(pool, "who", owner, **more))["structuredContent"]["session"]


# --- isolation


@pytest.mark.parametrize(
    ("isolation", "different"), [("shared", 1), ("principal", 2), ("session", 4)]
)
async def test_a_session_is_shared_as_far_as_isolation_lets_it(
    make: Make, isolation: str, different: int
) -> None:
    pool = await make(isolation=isolation)
    owners = [
        Owner(Principal(who), session) for who in ("ann", "bob") for session in ("one", "two")
    ]
    assert len({await session_of(pool, owner) for owner in owners}) == different
    assert len({pool.key("up", owner) for owner in owners}) == different
    modern = [Owner(Principal(who)) for who in ("ann", "bob")]
    assert len({pool.key("up", owner) for owner in modern}) == min(different, 2)


async def test_a_template_gives_each_principal_its_own_process() -> None:
    args = ("-m", "armory.testing.upstreams.stdio", "--name", "${principal}")
    env = {"PYTHONPATH": PATHS, "WHO": "${principal}"}
    pool = Pool([UpstreamSpec("up", command=sys.executable, args=args, env=env)])
    try:
        for owner in (ANN, BOB):
            seen = (await call(pool, "who", owner))["structuredContent"]["env"]["WHO"]
            assert seen == owner.principal.file_safe
            _, link = await pool.upstream("up").links.opened(owner, {})
            assert link.server_info["name"] == owner.principal.file_safe
    finally:
        await pool.close()


async def test_a_session_that_ends_takes_its_upstream_session_along(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make(isolation="session")
    first = await session_of(pool, Owner(Principal("ann"), "one"))
    await session_of(pool, Owner(Principal("ann"), "two"))
    await pool.release_session("one")
    await until(lambda: server.deleted == [first])
    assert len(server.sessions) == 1


async def test_callers_that_come_together_open_one_session(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make()
    await asyncio.gather(*(call(pool, "echo") for _ in range(10)))
    assert len(server.sessions) == 1


async def test_a_caller_that_gives_up_does_not_spoil_the_connection_for_others(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make()
    tasks = [asyncio.create_task(call(pool, "echo")) for _ in range(2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert (await tasks[1])["isError"] is False
    assert tasks[0].cancelled()
    assert len(server.sessions) == 1


async def test_an_unknown_upstream(make: Make) -> None:
    pool = await make()
    with pytest.raises(UpstreamUnavailable, match="no upstream 'other'"):
        await pool.request("other", ANN, Call("ping", {}))
    assert pool.era("other") is None
    assert pool.era("up") is None
    await call(pool, "echo")
    assert pool.era("up") == "legacy"


# --- bounds


async def test_idle_sessions_are_closed_and_busy_ones_are_not(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    pool = await make(idle_timeout_s=100)
    idle, busy = await session_of(pool, ANN), await session_of(pool, BOB)
    server.script.started.clear()
    hanging = asyncio.create_task(call(pool, "wait", BOB))
    await server.script.started.wait()
    await until(lambda: clock.sleeping > 0)
    await clock.advance(99)
    assert server.deleted == []
    await clock.advance(30)
    await until(lambda: server.deleted == [idle])
    server.script.release.set()
    await hanging
    assert await session_of(pool, BOB) == busy
    assert await session_of(pool, ANN) != idle


async def test_the_gateways_own_session_and_subscribers_are_never_idle(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    pool = await make(idle_timeout_s=100)
    await pool.upstream("up").own_link()
    await pool.set_subscriptions("up", ANN, frozenset({"mem://one"}))
    await call(pool, "echo", BOB)
    await until(lambda: clock.sleeping > 0)
    await clock.advance(1_000)
    await until(lambda: len(server.deleted) == 1)
    assert len(server.sessions) == 2


async def test_at_the_cap_the_longest_idle_session_makes_room(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    pool = await make(max_sessions=2)
    first = await session_of(pool, ANN)
    await clock.advance(1)
    second = await session_of(pool, BOB)
    await clock.advance(1)
    await session_of(pool, Owner(Principal("eve")))
    await until(lambda: server.deleted == [first])
    assert await session_of(pool, BOB) == second


async def test_one_caller_cannot_take_everybodys_place(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    pool = await make(max_sessions=20)
    bob = await session_of(pool, BOB)
    for number in range(30):
        await clock.advance(1)
        await call(pool, "echo", ANN, client=RecordingClient({"sampling": {"n": number}}))
    assert await session_of(pool, BOB) == bob
    await until(lambda: len(server.sessions) == 1 + PROFILES_PER_OWNER)


async def test_at_the_cap_with_all_busy_callers_are_turned_away(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make(max_sessions=1)
    hanging = asyncio.create_task(call(pool, "wait"))
    await server.script.started.wait()
    with pytest.raises(UpstreamOverloaded, match="max_sessions: 1"):
        await call(pool, "echo", BOB)
    server.script.release.set()
    await hanging
    await call(pool, "echo", BOB)


async def test_concurrency_and_queue(make: Make, server: HttpUpstream) -> None:
    pool = await make(max_concurrency=2, max_queue=1)
    running = [asyncio.create_task(call(pool, "wait")) for _ in range(2)]
    await until(lambda: pool.status()["up"].in_flight == 2)
    queued = asyncio.create_task(call(pool, "echo"))
    await until(lambda: pool.status()["up"].queued == 1)
    with pytest.raises(UpstreamOverloaded, match="max_concurrency: 2 and max_queue: 1"):
        await call(pool, "echo")
    server.script.release.set()
    await asyncio.gather(*running, queued)
    assert pool.status()["up"].in_flight == 0
    assert pool.status()["up"].breaker == "closed"


async def test_waiting_in_the_queue_is_bounded(make: Make, server: HttpUpstream) -> None:
    pool = await make(max_concurrency=1)
    running = asyncio.create_task(call(pool, "wait"))
    await server.script.started.wait()
    with pytest.raises(UpstreamOverloaded, match=r"no place for the call within 0\.1 s"):
        await call(pool, "echo", timeout_s=0.1)
    server.script.release.set()
    await running


async def test_the_breaker_opens_and_closes_again(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    pool = await make(breaker_failures=2, breaker_open_s=30)
    await call(pool, "echo")
    server.fail_with = 500
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable, match="HTTP 500"):
            await call(pool, "echo")
    server.fail_with = None
    with pytest.raises(UpstreamPaused, match="failed 2 times in a row") as caught:
        await call(pool, "echo")
    assert caught.value.retry_after_s == 30
    assert pool.status()["up"].breaker == "open"
    await clock.advance(30)
    assert (await call(pool, "echo"))["isError"] is False
    assert pool.status()["up"].breaker == "closed"


async def test_what_is_the_calls_own_fault_does_not_open_the_breaker(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make(breaker_failures=1, message_bytes=10_000)
    for _ in range(3):
        with pytest.raises(UpstreamUnavailable, match="limit"):
            await call(pool, "big")
    await call(pool, "error")
    server.fail_with = 403
    with pytest.raises(UpstreamUnavailable):
        await call(pool, "echo")
    assert pool.status()["up"].breaker == "closed"


@pytest.mark.parametrize(("safe", "attempts"), [(True, 2), (False, 1)])
async def test_only_what_is_safe_is_tried_again(
    make: Make, server: HttpUpstream, safe: bool, attempts: int
) -> None:
    pool = await make()
    await call(pool, "echo")
    with pytest.raises(UpstreamUnavailable):
        await call(pool, "crash", safe_to_retry=safe)
    sent = [m for _, m in server.requests if m.get("params", {}).get("name") == "crash"]
    assert len(sent) == attempts


async def test_a_restarted_upstream_is_reached_again_on_use(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make()
    await call(pool, "echo")
    await server.stop()
    with pytest.raises(UpstreamUnavailable, match=r"no connection|closed the connection"):
        await call(pool, "echo")
    server.sessions.clear()
    await server.start()
    assert (await call(pool, "echo"))["isError"] is False


# --- configuration


async def test_an_update_keeps_what_did_not_change_and_lets_calls_end(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    async with HttpUpstream(eras="legacy") as other:
        pool = await make()
        same = UpstreamSpec("up", url=server.url)
        before = await session_of(pool, ANN)
        await pool.update([same, UpstreamSpec("new", url=other.url)])
        assert pool.servers() == ["up", "new"]
        assert await session_of(pool, ANN) == before
        server.script.started.clear()
        running = asyncio.create_task(call(pool, "wait"))
        await server.script.started.wait()
        await pool.update([UpstreamSpec("up", url=other.url)])
        assert await session_of(pool, ANN) in other.sessions
        server.script.release.set()
        assert (await running)["content"][0]["text"] == "released"
        await until(lambda: not server.sessions)
        await pool.close()
        assert not other.sessions


async def test_changed_roots_reach_the_sessions_of_the_clients_that_have_some(
    make: Make, server: HttpUpstream
) -> None:
    pool = await make()
    client = RecordingClient({"roots": {"listChanged": True}})
    await call(pool, "echo", client=client)
    await call(pool, "echo", client=RecordingClient({"sampling": {}}))
    await call(pool, "echo", BOB, client=RecordingClient({"roots": {"listChanged": True}}))
    before = len(server.script.received)
    await pool.roots_changed(ANN, RecordingClient({"sampling": {}}), {})
    await pool.roots_changed(ANN, client, {})
    sent = [m["method"] for m in server.script.received[before:]]
    assert sent == ["notifications/roots/list_changed"]


async def test_lists_as_one_caller_sees_them(make: Make, server: HttpUpstream) -> None:
    pool = await make()
    lists = await pool.fetch_lists("up", ANN)
    assert len(lists.tools) == len(server.script.tools)
    assert len(server.sessions) == 1


async def test_a_lost_subscription_is_made_again(
    make: Make, server: HttpUpstream, clock: FakeClock
) -> None:
    args = ("-m", "armory.testing.upstreams.stdio", "--era", "legacy")
    pool = await make(url=None, command=sys.executable, args=args, env={"PYTHONPATH": PATHS})
    await pool.set_subscriptions("up", ANN, frozenset({"mem://one"}))
    with pytest.raises(UpstreamUnavailable):
        await call(pool, "crash")
    await until(lambda: clock.sleeping > 0)
    await clock.advance(60)

    for _ in range(1_000):
        report = (await call(pool, "report"))["structuredContent"]
        if report["subscribed"] == ["mem://one"]:
            break
    else:
        pytest.fail("it was not")


async def test_a_session_that_could_not_be_opened_is_not_counted(
    server: HttpUpstream, make: Make
) -> None:
    await server.stop()
    pool = await make(isolation="session")
    for owner in (ANN, BOB):
        with pytest.raises(UpstreamUnavailable):
            await call(pool, "echo", owner)
    await until(lambda: pool.status()["up"].sessions.open == 0)
