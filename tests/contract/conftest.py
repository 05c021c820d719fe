"""Stores to run the contract suites on: in process, and real servers where they are installed."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.cache import Cache, MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.redis_cache import RedisCache
from armory.testing.servers import (
    PostgresServer,
    QdrantProcess,
    RedisServer,
)
from tests.contract.links import LEGACY, MODERN, Rig, open_rig
from tests.contract.qdrant_server import QdrantServer
from tests.contract.running_accounts import RunningAccounts


@dataclass
class Stores:
    """One kind of storage: where the database is, and how to reach the cache again."""

    url: str
    redis: RedisServer | None

    def cache(self) -> Cache:
        return MemoryCache() if self.redis is None else RedisCache(self.redis.url)


@dataclass
class Process:
    """What one Armory process holds of storage."""

    database: Database
    cache: Cache
    feed: ChangeFeed


class Processes:
    """Opens the storage of any number of processes on the same stores, and closes it."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._opened: list[tuple[Process, asyncio.Task[None]]] = []

    async def open(self) -> Process:
        database, cache = Database(self.stores.url), self.stores.cache()
        await database.open()
        feed = ChangeFeed(database, cache)
        task = asyncio.create_task(feed.run())
        process = Process(database, cache, feed)
        self._opened.append((process, task))
        assert await feed.wait_trusted(10)
        return process

    async def close(self) -> None:
        for process, task in reversed(self._opened):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await process.cache.aclose()
            await process.database.close()


@pytest.fixture(
    params=[
        "memory+sqlite",
        pytest.param("redis+postgres", marks=[pytest.mark.redis, pytest.mark.postgres]),
    ]
)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    if request.param == "memory+sqlite":
        return Stores(f"sqlite:///{tmp_path / 'armory.db'}", None)
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    redis: RedisServer = request.getfixturevalue("redis")
    return Stores(postgres.create_database(), redis)


@pytest.fixture
async def processes(stores: Stores) -> AsyncIterator[Processes]:
    opened = Processes(stores)
    yield opened
    await opened.close()


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    """A Qdrant server's REST interface on a local port."""
    server = QdrantServer()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def qdrant_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Qdrant server: the one that `QDRANT_URL` names, or `qdrant` of the PATH."""
    if "QDRANT_URL" in os.environ:
        yield os.environ["QDRANT_URL"]
        return
    if shutil.which("qdrant") is None:
        pytest.skip("there is no qdrant on the PATH")
    process = QdrantProcess(tmp_path_factory.mktemp("qdrant"))
    yield process.url
    process.kill()


@pytest.fixture(params=[*MODERN, *LEGACY])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async for one in open_rig(request.param):
        yield one


@pytest.fixture(params=LEGACY)
async def legacy(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async for one in open_rig(request.param):
        yield one


TOOLS = ("a__often", "a__once", "a__never", "a__other", "a__last")


@pytest.fixture
async def replicas(stores: Stores) -> AsyncIterator[RunningAccounts]:
    """Replicas of the same accounts."""
    settings = AccountSettings(enabled=True, plans={"free": 3, "team": None}, redact=("[0-9]{4}",))
    found = RunningAccounts(
        lambda: Accounts(Database(stores.url), stores.cache(), settings, tools=lambda: TOOLS)
    )
    yield found
    await found.stop()
