"""Several installations on one Redis: each has its own keys and channels there."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, aclosing

import pytest
from redis.asyncio import Redis

from armory.config import Loaded, load_text
from armory.errors import ConfigError
from armory.runtime.blocks.accounts import make_accounts
from armory.runtime.replicas.shared import shared
from armory.testing.servers import RedisServer

pytestmark = pytest.mark.anyio


def loaded(url: str, prefix: str) -> Loaded:
    storage = {"url": "sqlite:///unused.db", "redis": url, "redis_prefix": prefix}
    return load_text(json.dumps({"storage": storage}))


@pytest.mark.redis
async def test_installations_with_other_prefixes_know_nothing_of_each_other(
    redis: RedisServer,
) -> None:
    one, two = loaded(redis.url, "team-a:"), loaded(redis.url, "team-b:")
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        here, there = [await shared(each.config, stack, "127.0.0.1", 1, "") for each in (one, two)]
        caches = [make_accounts(each).cache for each in (one, two)]
        for cache in caches:
            stack.push_async_callback(cache.aclose)
        assert here.store is not None
        assert there.store is not None
        await here.store.set("kept", b"here", 60)
        assert await caches[0].get("kept") == b"here"
        assert await there.store.get("kept") is None
        assert await caches[1].get("kept") is None
        listening = await stack.enter_async_context(
            aclosing(caches[1].listen("changes", heartbeat_s=60))
        )
        assert await anext(listening) is None
        await caches[0].publish("changes", b"of another")
        await caches[1].publish("changes", b"own")
        assert await anext(listening) == b"own"
        plain = Redis.from_url(redis.url)
        stack.push_async_callback(plain.aclose)
        assert await plain.keys("*kept") == [b"team-a:kept"]


@pytest.mark.parametrize("prefix", ["", "with space:", "x" * 101])
async def test_a_prefix_that_is_none_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match=r"storage\.redis_prefix.*1 to 100 characters"):
        loaded("redis://127.0.0.1:1/0", prefix)
