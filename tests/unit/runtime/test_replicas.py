"""One replica among others: how it finds its address, and what is asked of all of them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from armory.config import load_text
from armory.runtime.replicas.broadcast import ASKED, Broadcast
from armory.runtime.replicas.shared import REPLICA_URL, shared
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.tasks import stop
from armory.testing.waiting import eventually, until

pytestmark = pytest.mark.anyio


async def test_the_address_is_looked_up_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, look_up = threading.current_thread(), socket.getaddrinfo

    def found(*arguments: Any, **more: Any) -> Any:
        assert threading.current_thread() is not loop
        return look_up(*arguments, **more)

    monkeypatch.delenv(REPLICA_URL, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", found)
    config = load_text(json.dumps({"storage": {"redis": "redis://127.0.0.1:1/0"}})).config
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        replicas = (await shared(config, stack, "0.0.0.0", 8080, "")).replicas
        assert replicas is not None
        assert "0.0.0.0" not in replicas.own_url


@pytest.mark.parametrize("what", ["reload", "restart"])
async def test_what_is_asked_of_all_is_done_and_told_though_who_asked_has_gone(
    tmp_path: Path, what: str
) -> None:
    database = Database(f"sqlite:///{tmp_path}/armory.db")
    await database.open()
    feed = ChangeFeed(database, MemoryCache())
    begun, go, told = asyncio.Event(), asyncio.Event(), list[str]()

    async def work(_asked: object) -> Any:
        begun.set()
        await go.wait()

    async def hear(value: str) -> None:
        told.append(value)

    broadcast = Broadcast(feed, "project", lambda: ["up"], work, work)
    feed.subscribe(ASKED, hear)
    asked = broadcast.reload(False) if what == "reload" else broadcast.restart("up")
    asking = asyncio.ensure_future(asked)
    async with asyncio.timeout(30):
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go.set()
        await until(lambda: bool(told))
    await broadcast.close()
    await database.close()


async def _now_ms(database: Database) -> int:
    async with database.read() as connection:
        return (await connection.execute(select(database.now_ms))).scalar_one()


async def _is_later(database: Database, at_ms: int) -> bool:
    return await _now_ms(database) > at_ms


async def test_a_clock_that_is_ahead_keeps_no_replica_from_doing_what_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that is behind have it do again what was done before it began."""
    done = list[str]()

    async def nothing(_asked: object) -> Any:
        return {}

    database = Database(f"sqlite:///{tmp_path}/armory.db")
    await database.open()
    feed = ChangeFeed(database, MemoryCache())
    asks = Broadcast(feed, "project", lambda: ["up"], nothing, nothing)
    await asks.restart("up")
    asked_ms, now = await _now_ms(database), time.time_ns
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        await eventually(lambda: _is_later(database, asked_ms))
        for which, ahead_s in (("ahead", 3_600), ("behind", -3_600)):

            async def work(_asked: object, which: str = which) -> Any:
                done.append(which)

            with monkeypatch.context() as patched:
                patched.setattr(time, "time_ns", lambda s=ahead_s: now() + s * 1_000_000_000)
                other = ChangeFeed(database, MemoryCache())
                follows = Broadcast(other, "project", lambda: ["up"], work, work)
                stack.push_async_callback(follows.close)
                running = asyncio.ensure_future(other.run())
                stack.push_async_callback(stop, running)
                await other.wait_trusted(20)
        assert done == []
        await asks.reload(False)
        await until(lambda: sorted(done) == ["ahead", "behind"])
        await asks.close()


async def test_nor_does_a_clock_that_was_set_back_since_the_replica_began(tmp_path: Path) -> None:
    done, told = list[str](), list[str]()

    async def work(asked: object) -> Any:
        done.append(str(asked))
        return {}

    async def nothing(_asked: object) -> Any:
        return {}

    async def hear(value: str) -> None:
        told.append(value)

    database = Database(f"sqlite:///{tmp_path}/armory.db")
    await database.open()
    here, there = ChangeFeed(database, MemoryCache()), ChangeFeed(database, MemoryCache())
    here.subscribe(ASKED, hear)
    asks = Broadcast(here, "project", lambda: ["up"], nothing, nothing)
    hears = Broadcast(there, "project", lambda: ["up"], work, work)
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        stack.push_async_callback(hears.close)
        await there.poll()
        assert there.began_ms is not None
        there.began_ms += 3_600_000  # the clock was an hour ahead then
        await asks.restart("up")
        await there.poll()
        await until(lambda: done == ["up"])
        nonce, at_ms, asked = told[0].split(" ")
        async with here.transaction() as transaction:  # what another was asked before it began
            transaction.changed(ASKED, f"{nonce}0 {int(at_ms) - 60_000} {asked}")
        await there.poll()
        await asks.reload(False)
        await there.poll()
        await until(lambda: len(done) > 1)
    assert done == ["up", "False"]
