"""Redis and PostgreSQL that die, hang and come back: speed may suffer, correctness may not."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.errors import AuthenticationFailed, BackendError
from armory.storage.database import Database
from armory.storage.redis_cache import RedisCache
from armory.testing.servers import PostgresServer, RedisServer
from armory.testing.waiting import eventually, until
from tests.contract.running_accounts import RunningAccounts

pytestmark = [pytest.mark.anyio, pytest.mark.redis]


class Pair(RunningAccounts):
    """Two processes on one database and one Redis."""

    def __init__(self, url: str, redis: RedisServer) -> None:
        settings = AccountSettings(enabled=True)
        super().__init__(lambda: Accounts(Database(url), RedisCache(redis.url), settings))
        self.redis = redis


@pytest.fixture
async def pair(tmp_path: Path, redis: RedisServer) -> AsyncIterator[Pair]:
    found = Pair(f"sqlite:///{tmp_path / 'armory.db'}", redis)
    yield found
    await found.stop()


async def outcome(accounts: Accounts, text: str) -> str:
    try:
        return "valid" if await accounts.keys.identify(text) else "no key"
    except AuthenticationFailed:
        return "refused"
    except BackendError:
        return "unavailable"


async def becomes(accounts: Accounts, text: str, wanted: str) -> None:
    async def is_so() -> bool:
        return await outcome(accounts, text) == wanted

    await eventually(is_so)


async def test_redis_killed_and_restarted_under_load_costs_no_answer(pair: Pair) -> None:
    first, second = await pair.start(), await pair.start()
    _, text = await first.keys.create("k")
    counts: Counter[str] = Counter()
    done = asyncio.Event()

    async def load() -> None:
        while not done.is_set():
            counts[await outcome(second, text)] += 1
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(load()) for _ in range(4)]
    for _ in range(2):
        await asyncio.to_thread(pair.redis.kill)
        enough = counts["valid"] + 50
        await until(lambda: counts["valid"] >= enough)  # noqa: B023 # awaited at once
        await asyncio.to_thread(pair.redis.start)
        assert await second.feed.wait_trusted(10)
    done.set()
    await asyncio.gather(*tasks)
    assert set(counts) == {"valid"}


async def test_who_listens_to_redis_ends_in_whatever_turn_it_is_cancelled(
    redis: RedisServer,
) -> None:
    cache = RedisCache(redis.url)

    async def listen(heard: asyncio.Event) -> None:
        async with aclosing(cache.listen("changes", heartbeat_s=0)) as messages:
            async for _ in messages:
                heard.set()

    tasks: list[asyncio.Task[None]] = []
    for turns in range(400):
        heard = asyncio.Event()
        tasks.append(asyncio.create_task(listen(heard)))
        async with asyncio.timeout(10):
            await heard.wait()
        for _ in range(turns % 40):
            await asyncio.sleep(0)
        tasks[-1].cancel()
        if turns % 40 == 39:  # not each by itself: those of other turns run meanwhile
            _, late = await asyncio.wait(tasks, timeout=10)
            assert not late
    await cache.aclose()


async def test_a_connection_lost_while_it_is_made_is_a_failure_of_redis() -> None:
    """In whatever turn it is lost: uvloop says so in one of them with a RuntimeError."""

    async def ask(port: int) -> None:
        cache = RedisCache(f"redis://127.0.0.1:{port}/0")
        with pytest.raises(BackendError):
            await cache.get("k")
        await cache.aclose()

    for turns in range(200):
        with socket.create_server(("127.0.0.1", 0)) as server:  # accepts nothing, ends all at once
            asking = asyncio.gather(*(ask(server.getsockname()[1]) for _ in range(4)))
            for _ in range(turns % 20):
                await asyncio.sleep(0)
        await asking


async def test_a_revocation_while_redis_is_away_holds_also_afterwards(pair: Pair) -> None:
    first, second = await pair.start(), await pair.start()
    made, text = await first.keys.create("k")
    assert await outcome(first, text) == await outcome(second, text) == "valid"
    await asyncio.to_thread(pair.redis.kill)
    await first.keys.revoke(made.id)
    await becomes(second, text, "refused")
    await asyncio.to_thread(pair.redis.start)
    assert await second.feed.wait_trusted(10)
    assert await outcome(second, text) == "refused"


async def test_what_redis_kept_through_an_outage_is_not_believed(pair: Pair) -> None:
    first, second = await pair.start(), await pair.start()
    made, text = await first.keys.create("k")
    assert await outcome(second, text) == "valid"  # now it is in Redis
    await asyncio.to_thread(pair.redis.pause)  # hangs, keeps what it has
    await first.keys.revoke(made.id)
    await becomes(second, text, "refused")
    await asyncio.to_thread(pair.redis.resume)
    assert await second.feed.wait_trusted(10)
    third = await pair.start()
    assert await outcome(third, text) == "refused"
    assert await outcome(second, text) == "refused"


async def test_a_redis_that_hangs_does_not_hold_up_answers(pair: Pair) -> None:
    accounts = await pair.start()
    _, text = await accounts.keys.create("k")
    await asyncio.to_thread(pair.redis.pause)
    await until(lambda: not accounts.feed.trusted)  # the lease is over
    async with asyncio.timeout(5):
        for _ in range(20):
            assert await outcome(accounts, text) == "valid"
    await asyncio.to_thread(pair.redis.resume)


@pytest.mark.postgres
async def test_postgres_restarted_loses_nothing(
    postgres_server: PostgresServer, redis: RedisServer
) -> None:
    pair = Pair(postgres_server.create_database(), redis)
    accounts = await pair.start()
    _, text = await accounts.keys.create("k")
    assert await outcome(accounts, text) == "valid"
    accounts.usage.called("ann", "a__b", ok=True, latency_ms=5)
    await asyncio.to_thread(postgres_server.stop)
    assert await outcome(accounts, "acx_" + "n" * 43) == "unavailable"
    accounts.usage.called("ann", "a__b", ok=True, latency_ms=7)
    with pytest.raises(BackendError):
        await accounts.flush()
    await asyncio.to_thread(postgres_server.start)
    async with asyncio.timeout(20):
        while True:
            try:
                await accounts.flush()
                break
            except BackendError:
                await asyncio.sleep(0.05)
    await accounts.usage.refresh()
    stats: Any = accounts.usage.tool("a__b")
    assert stats.uses == 2
    assert await outcome(accounts, text) == "valid"
    await pair.stop()


@pytest.mark.postgres
async def test_a_server_that_is_a_standby_by_now_is_left(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    reads = f"ALTER DATABASE {url.rpartition('/')[2]} SET default_transaction_read_only"
    database, other = Database(url), Database(postgres_server.url())

    async def write() -> None:
        async with database.write() as connection:
            await connection.execute(text("CREATE TABLE IF NOT EXISTS written (id int)"))

    async def now(reads_only: str) -> None:
        async with other.write() as connection:
            await connection.execute(text(f"{reads} = {reads_only}"))

    try:
        await now("on")
        async with database.read() as one, database.read() as two:  # as if they led to the standby
            for connection in (one, two):
                await connection.execute(text("SELECT 1"))
        await now("off")
        with pytest.raises(BackendError, match="in a read-only transaction"):
            await write()
        await write()
        await write()
    finally:
        await database.close()
        await other.close()


@pytest.mark.postgres
async def test_a_silent_server_is_left_in_time(postgres_server: PostgresServer) -> None:
    """Whatever is open: each connection would be waited for by itself, for ten seconds."""
    database = Database(postgres_server.create_database())
    at_once, under_way = asyncio.Barrier(4), asyncio.Event()

    async def reads() -> None:
        async with database.read() as connection:
            await connection.execute(text("SELECT 1"))
            await at_once.wait()

    async def waits() -> None:
        async with database.write() as connection:
            under_way.set()
            await connection.execute(text("SELECT pg_sleep(100)"))

    await asyncio.gather(*(reads() for _ in range(4)))
    waiting = asyncio.create_task(waits())
    await under_way.wait()
    postgres_server.pause()
    try:
        waiting.cancel()
        async with asyncio.timeout(15):
            await database.close()
            await asyncio.wait((waiting,))
    finally:
        postgres_server.resume()
