"""What every storage must do: the same suite on memory + SQLite and on Redis + PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from sqlalchemy import insert, select

from armory.accounts.query_log import QueryRecord
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.audit.reading import RecordFilter, checked, records
from armory.audit.record import Entry
from armory.audit.settings import AuditSettings
from armory.audit.sinks import DatabaseSink
from armory.audit.threaded import ThreadedSink
from armory.audit.writer import opened_audit
from armory.errors import BackendError
from armory.security.sealing import Seal
from armory.storage.cache import Cache
from armory.storage.database import Database, now_ms
from armory.storage.grants import StoredGrants
from armory.storage.readthrough import ReadThrough
from armory.storage.tables import users
from armory.tasks import Flights
from armory.testing.waiting import eventually, until

pytestmark = pytest.mark.anyio


def user(name: str) -> dict[str, Any]:
    return {"id": name, "plan": "free", "is_active": True, "created_at_ms": now_ms()}


async def names(database: Database) -> list[str]:
    async with database.read() as connection:
        return list((await connection.execute(select(users.c.id).order_by(users.c.id))).scalars())


async def test_a_failed_transaction_leaves_nothing(processes: Any) -> None:
    process = await processes.open()

    async def fail() -> None:
        async with process.feed.transaction() as change:
            await change.connection.execute(insert(users).values(user("ann")))
            change.changed("user", "ann")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await names(process.database) == []


async def test_a_grant_says_for_how_long_it_is_kept(processes: Any) -> None:
    process = await processes.open()
    grants = StoredGrants(process.database, process.feed, Seal(["a-secret-of-some-length"]))
    assert await grants.begin("an-id", 600)
    assert await grants.load("an-id") is None  # nobody has logged in yet
    assert await grants.take("an-id", 0, b"first", 60)
    assert not await grants.take("an-id", 0, b"second", 60)
    step, grant, left_s = await grants.load("an-id") or (0, b"", 0.0)
    assert (step, grant, 50 < left_s <= 60) == (1, b"first", True)
    assert await grants.take("an-id", 1, None, 3_600)
    await grants.take_back("an-id", 1, b"renewed", 3_600)
    step, grant, left_s = await grants.load("an-id") or (0, b"", 0.0)
    assert (step, grant, 3_500 < left_s <= 3_600) == (1, b"renewed", True)
    await grants.take_back("an-id", 0, None, -1)
    assert await grants.load("an-id") is None


async def test_writers_wait_for_each_other(processes: Any) -> None:
    process = await processes.open()
    await process.database.open()  # an upgrade of what is up to date does nothing

    async def add(number: int) -> None:
        async with process.database.write() as connection:
            held = (await connection.execute(select(users.c.id))).all()
            assert held is not None
            await connection.execute(insert(users).values(user(f"u{number:02d}")))

    await asyncio.gather(*(add(number) for number in range(20)))
    assert len(await names(process.database)) == 20


async def test_replicas_upgrade_an_empty_database_together(stores: Any) -> None:
    databases = [Database(stores.url) for _ in range(8)]
    await asyncio.gather(*(database.open() for database in databases))
    assert await names(databases[0]) == []
    for database in databases:
        await database.close()


async def test_cache_values_come_and_go(processes: Any) -> None:
    cache: Cache = (await processes.open()).cache
    assert await cache.get("a") is None
    await cache.set("a", b"1", 60)
    assert await cache.get("a") == b"1"
    assert not await cache.add("a", b"2", 60)
    assert await cache.get("a") == b"1"
    await cache.delete("a", "absent")
    assert not await cache.renew("a", 60)
    assert await cache.add("a", b"3", 60)
    assert await cache.renew("a", 0.5)
    assert await cache.get("a") == b"3"

    async def expired() -> bool:
        return await cache.get("a") is None

    await eventually(expired)


async def test_cache_messages_reach_listeners(processes: Any) -> None:
    cache: Cache = (await processes.open()).cache
    listening, heard = asyncio.Event(), asyncio.Event()
    messages: list[bytes] = []

    async def listen() -> None:
        async for message in cache.listen("news", heartbeat_s=0.1):
            listening.set()
            if message is not None:
                messages.append(message)
                heard.set()

    task = asyncio.create_task(listen())
    await asyncio.wait_for(listening.wait(), 30)
    await cache.publish("news", b"hello")
    await cache.publish("other", b"not for us")
    await asyncio.wait_for(heard.wait(), 30)
    task.cancel()
    assert messages == [b"hello"]


async def test_a_change_is_heard_by_every_process_within_a_second(processes: Any) -> None:
    first, second = await processes.open(), await processes.open()
    heard: dict[str, asyncio.Event] = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def at_first(value: str) -> None:
        assert value == "ann"
        heard["first"].set()

    async def at_second(value: str) -> None:
        assert value == "ann"
        heard["second"].set()

    first.feed.subscribe("user", at_first)
    second.feed.subscribe("user", at_second)
    async with first.feed.transaction() as change:
        await change.connection.execute(insert(users).values(user("ann")))
        change.changed("user", "ann")
    assert heard["first"].is_set(), "the process that changes it knows at once"
    await asyncio.wait_for(heard["second"].wait(), 10)


async def test_many_changes_at_once_are_all_heard(processes: Any) -> None:
    first, second = await processes.open(), await processes.open()
    heard: set[str] = set()
    complete = asyncio.Event()

    async def hear(value: str) -> None:
        heard.add(value)
        if len(heard) == 600:
            complete.set()

    second.feed.subscribe("user", hear)

    async def tell(start: int) -> None:
        for number in range(start, start + 200):
            async with first.feed.transaction() as change:
                change.changed("user", f"u{number}")

    await asyncio.gather(tell(0), tell(200), tell(400))
    await asyncio.wait_for(complete.wait(), 30)


async def test_readthrough_keeps_and_forgets_on_every_process(processes: Any) -> None:
    first, second = await processes.open(), await processes.open()
    truth = {"a": 1}
    loads = 0

    async def load() -> int:
        nonlocal loads
        loads += 1
        return truth["a"]

    def lookup(process: Any) -> ReadThrough[int]:
        kept = ReadThrough(
            "n", int, cache=process.cache, feed=process.feed, ttl_s=lambda value: 60.0
        )
        process.feed.subscribe("n", kept.invalidate)
        return kept

    at_first, at_second = lookup(first), lookup(second)
    assert [await at_first.get("a", load) for _ in range(3)] == [1, 1, 1]
    assert await at_second.get("a", load) == 1
    assert loads == (1 if first.cache.shared else 2)
    truth["a"] = 2
    async with first.feed.transaction() as change:
        change.changed("n", "a")
    assert await at_first.get("a", load) == 2

    async def fresh() -> bool:
        return await at_second.get("a", load) == 2

    await eventually(fresh)


async def test_a_lookup_that_began_before_the_change_is_not_kept(processes: Any) -> None:
    process = await processes.open()
    kept = ReadThrough("n", str, cache=process.cache, feed=process.feed, ttl_s=lambda value: 60.0)
    process.feed.subscribe("n", kept.invalidate)
    reading, changed = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        reading.set()
        await changed.wait()
        return "old"

    async def quick() -> str:
        return "new"

    under_way = asyncio.create_task(kept.get("a", slow))
    await asyncio.wait_for(reading.wait(), 30)
    async with process.feed.transaction() as change:
        change.changed("n", "a")
    changed.set()
    assert await under_way == "old"
    assert await kept.get("a", quick) == "new"
    other = await processes.open()
    elsewhere = ReadThrough("n", str, cache=other.cache, feed=other.feed, ttl_s=lambda value: 60.0)
    assert await elsewhere.get("a", quick) == "new"


async def test_a_clock_that_is_behind_keeps_nothing_for_longer(
    processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await processes.open(), await processes.open()
    said = "old"

    async def load() -> str:
        return said

    at_first, at_second = (
        ReadThrough("n", str, cache=one.cache, feed=one.feed, ttl_s=lambda value: 0.5)
        for one in (first, second)
    )
    assert await at_first.get("a", load) == "old"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    assert await at_second.get("a", load) == "old"
    said = "new"

    async def fresh() -> bool:
        return await at_second.get("a", load) == "new"

    await eventually(fresh)


async def test_a_flight_does_the_work_once_and_survives_the_one_who_began() -> None:
    flights: Flights[int] = Flights()
    began, release = asyncio.Event(), asyncio.Event()
    runs = 0

    async def work() -> int:
        nonlocal runs
        runs += 1
        began.set()
        await release.wait()
        return 7

    leader = asyncio.create_task(flights.join("k", work))
    await asyncio.wait_for(began.wait(), 30)
    others = [asyncio.create_task(flights.join("k", work)) for _ in range(5)]
    leader.cancel()
    release.set()
    assert await asyncio.wait_for(asyncio.gather(*others), 30) == [7] * 5
    assert runs == 1


async def test_a_flight_shares_a_failure_and_forgets_it() -> None:
    flights: Flights[int] = Flights()

    async def fail() -> int:
        raise BackendError("down")

    async def work() -> int:
        return 1

    with pytest.raises(BackendError):
        await flights.join("k", fail)
    assert await flights.join("k", work) == 1


async def test_no_text_of_a_caller_holds_up_the_audit(stores: Any) -> None:
    names = ("a\x00b", "half \ud800 a character", "é" * 300, "fine")
    sink = DatabaseSink(Database(stores.url), 365)
    async with opened_audit(ThreadedSink(sink), AuditSettings()) as audit:
        for name in names:
            audit.note(Entry(time.time(), name, "none", name, name, "denied", tool=name))
        await until(lambda: audit.written == len(names))
    found = await records(stores.url, [], RecordFilter(tool="fine"), limit=10)
    assert [record["who"] for record in found] == ["fine"]
    assert (await checked(stores.url, [])).problem is None


async def test_a_long_name_of_one_user_holds_up_nobodys_counts(stores: Any) -> None:
    long = f"https://another.example|{'x' * 190}"
    settings = AccountSettings(enabled=True, plans={"free": 100})
    accounts = Accounts(Database(stores.url), stores.cache(), settings)
    await accounts.open()
    try:
        for who in (long, "ann"):
            await accounts.plans.spend(who)
            accounts.query_log.add(QueryRecord("q", who, "v1", "mail", (), 1, 0.5, 1.0))
        await accounts.flush()
        assert (await accounts.plans.standing(long)).current_month_usage == 1
        for who in (long, "ann"):
            assert len(await accounts.query_log.recent(user=who)) == 1
    finally:
        await accounts.close()
