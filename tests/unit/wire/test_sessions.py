"""How sessions end, whatever stands in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import BackendError
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.gateway import Gateway
from armory.protocol.jsonrpc import decode, params_of, request
from armory.protocol.link import Owner, Reply
from armory.storage.cache import MemoryCache
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
from armory.wire.http.replicas import Replicas
from armory.wire.messages import whole
from armory.wire.sessions import kept
from armory.wire.sessions.registry import Sessions, TooMany
from armory.wire.sessions.session import Session
from armory.wire.settings import HttpSettings

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


class Slow(ScriptedPool):
    """A pool whose upstream is slow to hear that nobody watches a resource any more."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answered = asyncio.Event(), asyncio.Event()

    async def set_subscriptions(
        self, server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        await super().set_subscriptions(server, owner, uris, again)
        if not uris:
            self.asked.set()
            await self.answered.wait()


async def ended_by_delete(sessions: Sessions, session: Session) -> None:
    await sessions.end(session)


async def expired_by_another(sessions: Sessions, session: Session) -> None:
    session.used = float("-inf")
    await opened(sessions)


@pytest.mark.parametrize("way", [ended_by_delete, expired_by_another])
async def test_a_session_ends_to_its_end_though_whoever_ends_it_does_not_wait(
    way: Callable[[Sessions, Session], Coroutine[Any, Any, None]],
) -> None:
    pool, store = Slow(), MemoryCache()
    gateway, directory = behind(pool), Replicas(store, "http://here")
    sessions = Sessions(gateway, capacity=1, directory=directory)
    session = await opened(sessions)
    assert await store.get(f"session:{session.id}") == b"http://here"
    await gateway.changes.resources.add(session.subscription, "up", "a:1")
    async with asyncio.timeout(10):
        ending = asyncio.create_task(way(sessions, session))
        await pool.asked.wait()
        ending.cancel()
        await asyncio.wait([ending])
        assert ending.cancelled()
        pool.answered.set()
        await sessions.close()
    assert pool.released == [session.id]
    assert await store.get(f"session:{session.id}") is None


class Hanging(ScriptedPool):
    """A pool that does not let the first session go, nor say so."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = asyncio.Event()

    async def release_session(self, session_id: str) -> None:
        await super().release_session(session_id)
        if len(self.released) == 1:
            await self.ends.wait()


async def test_a_session_that_does_not_end_keeps_no_other_from_its_end() -> None:
    pool = Hanging()
    sessions = Sessions(behind(pool))
    for _ in range(40):
        await opened(sessions)
    closing = asyncio.create_task(sessions.close())
    await until(lambda: len(pool.released) == 40)
    assert not closing.done()
    pool.ends.set()
    async with asyncio.timeout(10):
        await closing


async def test_sessions_that_fail_to_end_keep_no_other_from_its_end() -> None:
    pool = Stubborn()
    pool.failing = 2
    sessions = Sessions(behind(pool))
    for _ in range(40):
        await opened(sessions)
    with pytest.raises(RuntimeError):
        await sessions.close()
    assert len(sessions) == 0
    assert len(pool.released) == 38


class Together(Replicas):
    """One that lets sessions go only many at a time."""

    def __init__(self) -> None:
        super().__init__(MemoryCache(), "http://here")
        self.waiting, self.enough = 0, asyncio.Event()

    async def release(self, session_id: str) -> None:
        self.waiting += 1
        if self.waiting == 10:
            self.enough.set()
        await self.enough.wait()


async def test_sessions_wait_side_by_side_for_a_store_that_is_told_of_their_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("armory.wire.sessions.registry._SOON_S", 3600)
    sessions = Sessions(behind(ScriptedPool()), directory=Together())
    for _ in range(40):
        await opened(sessions)
    async with asyncio.timeout(10):
        await sessions.close()


@pytest.mark.parametrize("turns", range(6))
async def test_no_request_finds_a_session_that_is_about_to_end(turns: int) -> None:
    sessions = Sessions(behind(ScriptedPool()))
    session = await opened(sessions)
    session.used = float("-inf")
    expiring = asyncio.create_task(sessions.expire())
    for _ in range(turns):
        await asyncio.sleep(0)
    found = sessions.find(session.id, Caller(ANONYMOUS))
    async with asyncio.timeout(10):
        await expiring
    assert found is None or not found.closed


async def test_a_session_is_found_by_its_client_at_its_endpoint_alone() -> None:
    sessions = Sessions(behind(ScriptedPool()))
    ann = Principal("key-1", "ann", frozenset(("read",)))
    session = await sessions.open(Caller(ann), MESSAGE, raws(HELLO))
    fewer = Principal("key-1", "ann", frozenset())
    assert sessions.find(session.id, Caller(fewer)) is session
    assert session.principal is fewer
    for caller in (
        Caller(ANONYMOUS),
        Caller(Principal("key-2", "ann")),
        Caller(ann, Endpoint("server", "up")),
        Caller(ann, Endpoint("set", ALL.name)),
    ):
        assert sessions.find(session.id, caller) is None
    assert sessions.find(f"{session.id}0", Caller(ann)) is None
    await sessions.end(session)
    assert sessions.find(session.id, Caller(ann)) is None


async def test_the_sessions_of_some_end_and_room_is_for_so_many() -> None:
    sessions = Sessions(behind(ScriptedPool()), capacity=2)
    for name in ("ann", "bob"):
        await sessions.open(Caller(Principal(name)), MESSAGE, raws(HELLO))
    with pytest.raises(TooMany, match=r"2 sessions are open \(server\.limits\.sessions\)"):
        await opened(sessions)
    assert sessions.refused == 1
    await sessions.end_those(lambda principal: principal.subject == "ann")
    assert len(sessions) == 1
    assert await opened(sessions)
    await sessions.close()
    assert len(sessions) == 0


class Away(MemoryCache):
    """A store that takes long to say that it is away, for each thing that it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.asked = 0

    async def get(self, key: str) -> bytes | None:
        if self.away:
            raise BackendError("away")
        return await super().get(key)

    async def delete(self, *keys: str) -> None:
        self.asked += 1
        await super().delete(*keys)


async def test_a_store_that_is_away_is_not_told_of_each_session_that_ends() -> None:
    store = Away()
    directory = Replicas(store, "http://here", alive_s=0.05)
    sessions = Sessions(behind(ScriptedPool()), directory=directory)
    for _ in range(5):
        await opened(sessions)
    await directory.start()
    store.away = True
    with capture_logs() as logs:
        await until(lambda: any(e["event"] == "replica_sign_of_life_failed" for e in logs))
    await sessions.close()
    assert store.asked == 0
    await directory.close()


async def test_sessions_are_counted_by_user_whatever_credential_opens_them() -> None:
    sessions = Sessions(behind(ScriptedPool()), per_principal=2)

    async def open_as(key: str, user: str | None) -> Session:
        return await sessions.open(Caller(Principal(key, user)), MESSAGE, raws(HELLO))

    one, _ = await open_as("key-1", "ann"), await open_as("key-2", "ann")
    with pytest.raises(TooMany, match="sessions_per_principal"):
        await open_as("key-3", "ann")
    await open_as("key-3", None)
    one.seen_as(Principal("key-1", "renamed"), one.endpoint)
    await sessions.end(one)  # it was counted as ann's
    await open_as("key-4", "ann")
    with pytest.raises(TooMany):
        await open_as("key-5", "ann")
    await sessions.close()


async def test_whoever_opens_more_and_more_has_sessions_looked_at_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions = Sessions(behind(ScriptedPool()), per_principal=1)
    first = await opened(sessions)
    with pytest.raises(TooMany):
        await opened(sessions)
    first.used = float("-inf")
    with pytest.raises(TooMany):  # each look takes a millisecond with 5,000 of them
        await opened(sessions)
    monkeypatch.setattr("armory.wire.sessions.registry._EXPIRE_EVERY_S", 0.0)
    await opened(sessions)
    assert first.closed
    await sessions.close()


async def test_a_question_is_withdrawn_where_its_client_reads_by_now() -> None:
    """The call that it was put on was answered before it: that stream has ended."""
    session = await opened(Sessions(behind(ScriptedPool())))
    stream = session.open_stream()
    reader = stream.attach()
    asking = asyncio.create_task(session.questions.ask(stream, "elicitation/create", {}))
    put = await stream.next(reader, 10)
    assert put is not None
    stream.close()
    reader = session.general.attach()
    asking.cancel()
    told = await session.general.next(reader, 10)
    assert told is not None
    withdrawn = decode(whole(told[1]))
    assert withdrawn.method == "notifications/cancelled"
    assert params_of(withdrawn)["requestId"] == decode(whole(put[1])).id


async def test_what_is_said_to_clients_that_read_nothing_is_bounded_for_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 20_000)
    sessions = Sessions(behind(ScriptedPool()))
    every = [await opened(sessions) for _ in range(4)]
    waiting = 0
    for _ in range(9):
        for session in every:
            line = {"level": "error", "data": "x" * 1_000}
            session.subscription.deliver("notifications/message", raws(line))
            waiting = sum(one.general.size_bytes for one in every)
            assert waiting == sessions.kept.held <= 20_000
    assert waiting > 10_000
    await sessions.close()
    assert sessions.kept.held == 0
