"""Two services on one store: what one has searched for, the other gives without searching."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import aiohttp
import pytest

from armory.storage.redis_cache import RedisCache
from armory.testing.embedder import HashingEmbedder
from armory.testing.servers import RedisServer
from armory.testing.service import ADMIN_TOKEN, catalog_of, running_service
from tests.unit.web.conftest import SERVERS

pytestmark = [pytest.mark.anyio, pytest.mark.redis]


async def test_an_answer_of_one_replica_is_given_by_the_other(
    tmp_path: Path, redis: RedisServer
) -> None:
    """Through a real Redis: what one searched, the other does not search again."""
    replica = partial(
        running_service,
        f"sqlite:///{tmp_path / 'armory.db'}",
        catalog_of(SERVERS),
        embedder=HashingEmbedder(),
    )
    async with (
        replica(cache=RedisCache(redis.url)) as one,
        replica(cache=RedisCache(redis.url)) as other,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}) as session,
    ):
        body = {"query": "deploy to production", "debug": True}
        async with session.post(f"{one.url}/v1/retrieve_tools", json=body) as answer:
            first = await answer.json()
        await other.retriever.aclose()
        await other.retriever.index([])  # it could find nothing by itself
        async with session.post(f"{other.url}/v1/retrieve_tools", json=body) as answer:
            second = await answer.json()
        assert first["tools"] != []
        assert (second["tools"], second["debug"]) == (first["tools"], first["debug"])
