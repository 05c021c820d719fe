"""What a kept answer of retrieval is kept for, and for how long."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ToolRules
from armory.errors import AuthenticationFailed
from armory.retrieval.rankers.base import RankSettings
from armory.security.authentication import StaticToken
from armory.storage.cache import MemoryCache
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import catalog_of, running_service
from tests.unit.web.conftest import ANN, BOB, SERVERS, Client

pytestmark = pytest.mark.anyio
SERVICE = "the-service-token"
ASKED: dict[str, Any] = {"query": "deploy and notify", "top_k": 4, "context": {"hour": 9}}


class Lasting(MemoryCache):
    """Shared, and knows for how many seconds an answer of each kind was kept last."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}

    @property
    def shared(self) -> bool:
        return True

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        self.seconds[key.partition(":")[0]] = ttl_s
        return await super().add(key, value, ttl_s)


@pytest.fixture
async def cache() -> Lasting:
    return Lasting()


@pytest.fixture
async def client(tmp_path: Path, cache: Lasting) -> AsyncIterator[Client]:
    tokens = [
        StaticToken("ann", ANN, user="ann"),
        StaticToken("bob", BOB, user="bob"),
        StaticToken("service", SERVICE),
    ]
    async with (
        running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog_of(SERVERS, {"slack": ToolRules(category="chat", tags={"*": ("async",)})}),
            cache=cache,
            tokens=tokens,
            embedder=HashingEmbedder(),
            rank=RankSettings(context_boosts=True),
        ) as service,
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, service)


async def answer(client: Client, token: str = SERVICE, **more: Any) -> dict[str, Any]:
    found = await client("POST", "/v1/retrieve_tools", token=token, json={**ASKED, **more})
    assert found.status == 200, found.body
    return {name: found.body.get(name) for name in ("tools", "debug")}


@pytest.mark.parametrize(
    "more",
    [
        {"query": "deploy or notify"},
        {"top_k": 1},
        {"ranker": "semantic"},
        {"debug": True},
        {"filter": {"server": "slack"}},
        {"filter": {"category": "chat"}},
        {"filter": {"min_score": 0.3}},
        {"context": {"hour": 20}},
        {"context": {"hour": 9, "last_tool": "slack__search"}},
    ],
)
async def test_whoever_asks_for_something_else_gets_something_else(
    client: Client, more: dict[str, Any]
) -> None:
    first = await answer(client)
    assert len(first["tools"]) == 4
    other = await answer(client, **more)
    assert other != first
    assert (await answer(client), await answer(client, **more)) == (first, other)


async def test_each_user_gets_the_own_history(client: Client) -> None:
    usage = client.service.accounts.usage
    usage.called("bob", "aws__logs", ok=True, latency_ms=20)
    await usage.flush()
    await usage.refresh()
    for token in (ANN, BOB):
        for server in ("aws", "slack"):
            body = {"server": server}
            await client("POST", "/v2/track_installation", token=token, json=body)
    scores = {
        token: {tool["name"]: tool["score"] for tool in (await answer(client, token))["tools"]}
        for token in (ANN, BOB)
    }
    assert scores[BOB]["aws__logs"] == pytest.approx(scores[ANN]["aws__logs"] + 0.20, abs=1e-5)


async def test_answers_are_kept_for_five_minutes_and_unknown_keys_for_one(
    client: Client, cache: Lasting
) -> None:
    await answer(client)
    assert cache.seconds["found"] == 300
    keys = client.service.accounts.keys
    _, lasting = await keys.create("lasting")
    await keys.identify(lasting)
    assert cache.seconds["key"] == 300
    with pytest.raises(AuthenticationFailed):
        await keys.identify(f"acx_{'x' * 43}")
    assert cache.seconds["key"] == 60
    _, brief = await keys.create("brief", expires_at_ms=round((time.time() + 200) * 1_000))
    await keys.identify(brief)
    assert 60 < cache.seconds["key"] <= 200
