"""What is asked of one replica and meant for all is done at all, and at nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import select

from armory.config import load_file
from armory.runtime import open_runtime
from armory.runtime.readiness import readiness
from armory.runtime.replicas.broadcast import ASKED
from armory.runtime.running import Runtime
from armory.storage.tables import changes
from armory.testing.clients.raw import LegacyClient
from armory.testing.servers import RedisServer, redis_binary
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
ROOT = "the-token-of-the-operator"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))


def written(path: Path, *urls: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    tokens = {"root": {"token": ROOT, "scopes": ["admin"]}}
    upstreams = {f"up-{number}": {"url": url} for number, url in enumerate(urls)}
    blocks = {"tool_rag": {"enabled": False}, "security": {"tokens": tokens}}
    path.write_text(json.dumps({**blocks, "upstreams": upstreams}))
    return path


@asynccontextmanager
async def replica(path: Path) -> AsyncGenerator[Runtime]:
    async with open_runtime(load_file(path), address=("127.0.0.1", 0)) as runtime:
        await runtime.ready()
        yield runtime


async def asked(runtime: Runtime, path: str) -> tuple[int, Any]:
    assert runtime.listening is not None
    url = f"{runtime.listening.url}/v1/{path}"
    headers = {"Authorization": f"Bearer {ROOT}"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.post(url) as response,
    ):
        return response.status, await response.json() if response.status != 204 else None


async def heard(runtime: Runtime) -> None:
    """It has heard of everything that was said before."""
    assert runtime.accounts is not None
    await runtime.accounts.feed.poll()


async def test_an_upstream_is_restarted_at_every_replica_of_the_configuration(
    tmp_path: Path,
) -> None:
    async with HttpUpstream() as upstream:
        path = written(tmp_path / "one" / "armory.yaml", upstream.url)
        elsewhere = written(tmp_path / "two" / "armory.yaml", upstream.url)
        async with replica(path) as one, replica(path) as two, replica(elsewhere) as other:
            before = [runtime.pool.upstream("up-0") for runtime in (one, two, other)]
            assert (await asked(one, "upstreams/up-0/restart"))[0] == 204
            here = one.pool.upstream("up-0")
            assert here is not before[0]
            await until(lambda: two.pool.upstream("up-0") is not before[1], 30)
            there = two.pool.upstream("up-0")
            for runtime in (one, two, other):  # what is heard again is not done again
                assert runtime.accounts is not None
                async with runtime.accounts.database.read() as connection:
                    found = select(changes.c.value).where(changes.c.topic == ASKED)
                    said = (await connection.execute(found)).scalars().all()
                async with runtime.accounts.feed.transaction() as again:
                    again.changed(ASKED, said[0])
                await heard(runtime)
            assert one.pool.upstream("up-0") is here
            assert two.pool.upstream("up-0") is there
            assert other.pool.upstream("up-0") is before[2]
            async with replica(path) as late:  # nor by whoever was not there
                since = late.pool.upstream("up-0")
                await heard(late)
                assert late.pool.upstream("up-0") is since
            assert (await asked(one, "upstreams/nobody/restart"))[0] == 404


@pytest.mark.redis
async def test_who_shares_nothing_but_redis_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its channels are one for all of its databases, and pods have their file at one path."""
    if redis_binary() is None:
        pytest.skip("redis-server is not installed")
    redis = RedisServer()
    try:
        async with HttpUpstream() as upstream:
            path = written(tmp_path / "one" / "armory.yaml", upstream.url)
            storage = {"url": f"sqlite:///{tmp_path}/${{DB}}.db", "redis": redis.url}
            path.write_text(json.dumps({**json.loads(path.read_text()), "storage": storage}))
            monkeypatch.setenv("DB", "production")
            async with replica(path) as one, replica(path) as two:
                monkeypatch.setenv("DB", "staging")
                async with replica(path) as staging:
                    before = [runtime.pool.upstream("up-0") for runtime in (two, staging)]
                    told: list[str] = []

                    async def hear(value: str) -> None:
                        told.append(value)

                    assert one.accounts is not None
                    assert staging.accounts is not None
                    staging.accounts.feed.subscribe("said after", hear)
                    assert (await asked(one, "upstreams/up-0/restart"))[0] == 204
                    async with one.accounts.feed.transaction() as transaction:
                        transaction.changed("said after", "it")
                    await until(lambda: told == ["it"], 30)
                    assert staging.pool.upstream("up-0") is before[1]
                    await until(lambda: two.pool.upstream("up-0") is not before[0], 30)
    finally:
        redis.kill()


@pytest.mark.redis
async def test_who_was_switched_off_and_on_again_stays_when_redis_comes_back(
    tmp_path: Path, redis: RedisServer
) -> None:
    path = written(tmp_path / "one" / "armory.yaml")
    read = json.loads(path.read_text())
    read |= {"accounts": {"enabled": True}, "storage": {"redis": redis.url}}
    path.write_text(json.dumps({**read, "security": {**read["security"], "api_keys": True}}))
    async with replica(path) as one, aiohttp.ClientSession() as http:
        assert one.accounts is not None
        assert one.listening is not None
        feed, users = one.accounts.feed, one.accounts.users
        await users.create("ann")
        _, key = await one.accounts.keys.create("laptop", user="ann")
        clients = [
            LegacyClient(f"{one.listening.url}/mcp", http, "2025-11-25", token=key)
            for _ in range(2)
        ]
        await clients[0].initialize({})
        await users.change("ann", is_active=False)
        await users.change("ann", is_active=True)
        await heard(one)
        await clients[1].initialize({})
        assert await feed.wait_trusted(10)
        await asyncio.to_thread(redis.kill)
        await until(lambda: not feed.trusted, 30)
        await asyncio.to_thread(redis.start)
        assert await feed.wait_trusted(10)
        assert (await clients[1].request("ping"))["result"] == {}
        assert "error" in await clients[0].request("ping")


async def test_the_configuration_is_read_by_every_replica_unless_it_does_not_hold(
    tmp_path: Path,
) -> None:
    async with HttpUpstream() as upstream:
        path = written(tmp_path / "one" / "armory.yaml", upstream.url)
        async with replica(path) as one, replica(path) as two:
            written(path, upstream.url, upstream.url)
            status, planned = await asked(one, "reload?dry_run=true")
            assert (status, planned["added"]) == (200, ["up-1"])
            await heard(two)
            assert [runtime.pool.servers() for runtime in (one, two)] == [["up-0"]] * 2
            status, done = await asked(one, "reload")
            assert (status, done["added"]) == (200, ["up-1"])
            assert one.activity is not None
            assert done["process"] == one.activity.process == readiness(one).details["process"]
            assert one.pool.servers() == ["up-0", "up-1"]
            await until(lambda: two.pool.servers() == ["up-0", "up-1"], 30)
            path.write_text("upstreams: 7")
            assert (await asked(one, "reload"))[0] == 422
            await heard(two)
            assert two.pool.servers() == ["up-0", "up-1"]
