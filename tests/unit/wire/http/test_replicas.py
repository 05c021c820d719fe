"""What one replica does for the sessions of another, and for its own in the shared store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from structlog.testing import capture_logs

from armory.errors import ArmoryError, BackendError
from armory.gateway.gateway import Gateway
from armory.storage.cache import MemoryCache
from armory.testing.front import ScriptedPool, WordRetriever, serving
from armory.testing.waiting import until
from armory.wire.http import replicas
from armory.wire.interaction.shared_key import SharedKey
from armory.wire.sessions import directory

pytestmark = pytest.mark.anyio

DEFAULT_LIMIT = 100
"""Connections that a client of aiohttp opens at most unless it is told otherwise."""


class Owner:
    """A replica that answers no request before so many are there.

    Attributes:
        heads: of the requests that came.
        answering: set once it answers.
    """

    def __init__(self, awaited: int) -> None:
        self.heads: list[bytes] = []
        self._awaited = awaited
        self.answering = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        if len(self.heads) >= self._awaited:
            self.answering.set()
        await self.answering.wait()
        writer.write(
            b"HTTP/1.1 204 No Content\r\nSet-Cookie: whose=first\r\nConnection: close\r\n\r\n"
        )
        writer.close()


@asynccontextmanager
async def beside(owner: Owner, sessions: int) -> AsyncGenerator[str]:
    """A replica beside that one, which owns sessions 0, 1, ...; gives its URL."""
    store = MemoryCache()
    server = await asyncio.start_server(owner.serve, "127.0.0.1", 0)
    async with server, serving(Gateway(ScriptedPool(), WordRetriever()), store=store) as (url, _):
        # by name: aiohttp takes no cookies from addresses
        elsewhere = f"http://localhost:{server.sockets[0].getsockname()[1]}"
        await store.set(f"replica:{elsewhere}", b"1", 60)
        for number in range(sessions):
            await store.set(f"session:{number}", elsewhere.encode(), 60)
        try:
            yield url
        finally:
            owner.answering.set()


async def ended(http: aiohttp.ClientSession, url: str, session: int) -> int:
    headers = {"Mcp-Session-Id": str(session)}
    async with http.delete(url + "/mcp", headers=headers) as response:
        return response.status


async def test_any_number_of_requests_is_passed_on_at_once() -> None:
    count = DEFAULT_LIMIT + 1
    unlimited = aiohttp.TCPConnector(limit=0)
    async with (
        beside(Owner(count), count) as url,
        aiohttp.ClientSession(connector=unlimited) as http,
    ):
        async with asyncio.timeout(20):
            statuses = await asyncio.gather(*(ended(http, url, n) for n in range(count)))
    assert statuses == [204] * count


async def test_what_one_client_is_told_is_not_said_for_another() -> None:
    owner = Owner(1)
    async with beside(owner, 2) as url, aiohttp.ClientSession() as http:
        for session in (0, 1):
            assert await ended(http, url, session) == 204
    assert [b"whose=first" in head for head in owner.heads] == [False, False]


class Unreachable(MemoryCache):
    """A store that cannot say anything."""

    async def get(self, key: str) -> bytes | None:
        raise BackendError(f"no answer about {key}")


@pytest.mark.parametrize(("asked", "answered"), [(7, 7), ("a", "a"), (None, None)])
async def test_who_cannot_be_found_meanwhile_is_told_so_under_the_requests_id(
    asked: object, answered: object
) -> None:
    request: dict[str, object] = {"jsonrpc": "2.0", "method": "tools/list"}
    body: object = [request | {"id": 1}] if asked is None else request | {"id": asked}
    gateway = Gateway(ScriptedPool(), WordRetriever())
    headers = {"Mcp-Session-Id": "another", "Accept": "application/json, text/event-stream"}
    async with (
        serving(gateway, store=Unreachable()) as (url, _),
        aiohttp.ClientSession(headers=headers) as http,
        http.post(url + "/mcp", json=body) as response,
    ):
        assert response.status == 503
        assert (await response.json())["id"] == answered
        answer = {"jsonrpc": "2.0", "id": 7, "result": {}}  # of a question: the id is another's
        async with http.post(url + "/mcp", json=answer) as response:
            assert response.status == 503
            assert (await response.json())["id"] is None


class Noting(MemoryCache):
    """A store that notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        await super().set(key, value, ttl_s)
        self.written.append(key)


async def test_sessions_are_claimed_as_long_as_they_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "REMEMBERED_S", 0.1)
    store = Noting()
    here = replicas.Replicas(store, "http://here")
    await here.start()
    await here.claim("lasts")
    await here.claim("ends")
    await until(lambda: store.written.count("session:ends") > 1)
    await here.release("ends")
    store.written.clear()
    await until(lambda: store.written.count("session:lasts") > 1)
    await here.close()
    assert "session:ends" not in store.written


class Failing(MemoryCache):
    """A store that takes nothing while it is told to fail."""

    failing = False

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        if self.failing:
            raise BackendError("Redis failed")
        await super().set(key, value, ttl_s)

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        if self.failing:
            raise BackendError("Redis failed")
        return await super().add(key, value, ttl_s)


class Hanging(MemoryCache):
    """A store that neither takes nor answers anything while it is told to hang."""

    def __init__(self) -> None:
        super().__init__()
        self.there = asyncio.Event()
        self.there.set()

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        await self.there.wait()
        await super().set(key, value, ttl_s)

    async def delete(self, *keys: str) -> None:
        await self.there.wait()
        await super().delete(*keys)


ONE, TWO = "http://one", "http://two"


@asynccontextmanager
async def two_of_them(
    store: MemoryCache,
) -> AsyncGenerator[tuple[replicas.Replicas, replicas.Replicas]]:
    """Two replicas, whose signs of life last for half a second."""
    one, two = (replicas.Replicas(store, url, alive_s=0.5) for url in (ONE, TWO))
    await one.start()
    await two.start()
    try:
        yield one, two
    finally:
        await one.close()
        await two.close()


async def found(there: replicas.Replicas, session: str, wanted: str | None) -> None:
    """Wait until it is said that this is whose session it is."""
    said: str | None = "nothing yet"
    async with asyncio.timeout(15):
        while said != wanted:
            with suppress(ArmoryError):
                said = await there.owner(session)
            await asyncio.sleep(0.01)


async def test_a_store_that_was_emptied_is_told_everything_again() -> None:
    """A Redis that keeps nothing on disk, and was restarted."""
    store = MemoryCache()
    async with two_of_them(store) as (one, two):
        await one.claim("used")
        await one.claim("unused")
        await one.claim("ended")
        assert await two.owner("used") == ONE
        await store.aclose()
        with pytest.raises(BackendError):  # it does not say that there is no such session
            await two.owner("unused")
        assert await two.owner("used") == ONE
        assert await two.alive(ONE)
        await one.release("ended")
        await found(two, "unused", ONE)
        await found(two, "ended", None)


async def test_what_a_store_did_not_take_it_is_told_later() -> None:
    store = Failing()
    async with two_of_them(store) as (one, two):
        store.failing = True
        await one.claim("opened meanwhile")
        store.failing = False
        await found(two, "opened meanwhile", ONE)


class Full(Noting):
    """A store that takes nothing while it is full; what it had has expired by then."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.full = False

    async def get(self, key: str) -> bytes | None:
        self.asked += 1
        return None if self.full else await super().get(key)

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        if self.full:
            raise BackendError("out of memory")
        await super().set(key, value, ttl_s)


async def test_while_a_store_is_full_nobody_is_told_that_it_was_told_again() -> None:
    store = Full()
    one = replicas.Replicas(store, ONE, alive_s=0.5)
    with capture_logs() as logs:
        await one.start()
        store.full, asked = True, store.asked
        await until(lambda: store.asked > asked + 5)
        store.full = False
        await one.claim("opened later")
        await found(replicas.Replicas(store, TWO), "opened later", ONE)
        await one.close()
    events = [log["event"] for log in logs]
    assert events.count("replica_sign_of_life_failed") == 1
    assert events.count("shared_store_told_again") <= 1


async def test_no_client_waits_long_for_a_store_that_does_not_answer() -> None:
    store = Hanging()
    async with two_of_them(store) as (one, two):
        store.there.clear()
        async with asyncio.timeout(30):
            await one.claim("opened meanwhile")
        store.there.set()
        await found(two, "opened meanwhile", ONE)


async def test_a_replica_that_is_gone_is_gone_again_after_the_store_was_emptied() -> None:
    store = MemoryCache()
    async with two_of_them(store) as (one, two):
        await one.claim("one's")
        assert await two.owner("one's") == ONE
        await one.close()
        await store.aclose()
        await found(two, "one's", None)
        assert not await two.alive(ONE)


async def test_two_that_have_the_same_address_say_so() -> None:
    """Hosts whose names mean 127.0.1.1 to themselves, say: neither would pass anything on."""
    store = MemoryCache()
    with capture_logs() as logs:
        one, two = (replicas.Replicas(store, ONE, alive_s=0.5) for _ in range(2))
        await one.start()
        await two.start()
        await until(lambda: sum(log["event"] == "replica_url_twice" for log in logs) == 2)
        await one.close()
        await two.close()


async def test_replicas_agree_on_a_secret_whenever_the_store_is_there() -> None:
    """Those that began while it was away, and those that come after it was emptied."""
    store = Failing()
    store.failing = True
    secrets: list[list[bytes]] = [[], [], []]
    many = [replicas.Replicas(store, f"http://{number}", alive_s=0.5) for number in range(3)]
    for one, taken in zip(many, secrets, strict=True):
        one.tells.append(SharedKey(store, taken.append).tell)
    await many[0].start()
    await many[1].start()
    assert secrets[0] != secrets[1]
    store.failing = False
    await until(lambda: secrets[0][-1] == secrets[1][-1])
    await store.aclose()
    await many[2].start()
    await until(lambda: secrets[0][-1] == secrets[1][-1] == secrets[2][-1])
    for one in many:
        await one.close()


async def test_one_client_alone_waits_for_a_store_that_hangs() -> None:
    store = Hanging()
    here = replicas.Replicas(store, "http://here", alive_s=0.15)
    await here.start()
    store.there.clear()
    with capture_logs() as logs:
        for id in ("one", "two", "three"):
            await here.claim(id)
    assert [entry["event"] for entry in logs].count("session_not_claimed") == 1
    store.there.set()
    async with asyncio.timeout(30):
        while await store.get("session:three") is None:  # noqa: ASYNC110 - told with a sign of life
            await asyncio.sleep(0.01)
    assert await store.get("session:two") is not None
    await here.close()


async def test_a_store_that_hangs_keeps_no_start_no_session_and_no_end_waiting() -> None:
    store = Hanging()
    store.there.clear()
    here = replicas.Replicas(store, "http://here")
    with capture_logs() as logs:
        async with asyncio.timeout(60):
            await here.start()
            await here.claim("one")
            await here.release("one")
            await here.close()
    assert [(entry["event"], entry["error"]) for entry in logs] == [
        ("session_not_claimed", "no answer in time"),
        ("replica_not_signed_off", "no answer in time"),
    ]
