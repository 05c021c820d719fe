"""One retrieval over REST: answers that are kept, and the numbers that come with them."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.domain.tool import ToolRecord
from armory.feedback.vectors import FeedbackLimits, FeedbackVectors
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import ADMIN_TOKEN as ADMIN
from armory.testing.service import catalog_of, running_service
from tests.unit.web.conftest import SERVERS

pytestmark = pytest.mark.anyio
SERVICE = "the-service-token"


async def test_a_kept_answer_ends_with_the_category_that_it_was_found_by(client: Any) -> None:
    tools = [{"name": "brew", "description": "Brew a cup of coffee"}]

    async def index(category: str) -> None:
        body = {"tools": tools, "server": "kitchen", "category": category}
        await client("POST", "/v2/index_tools", token=ADMIN, json=body)

    async def found(category: str) -> Any:
        params = {"query": "brew coffee", "category": category}
        return await client.names("/v1/retrieve_tools", token=SERVICE, **params)

    await index("drinks")
    assert await found("drinks") == ["kitchen__brew"]
    assert await found("food") == []
    await index("food")
    assert await found("drinks") == []
    assert await found("food") == ["kitchen__brew"]


@pytest.mark.parametrize("ranker", ["relevance", "hybrid", "semantic", "lexical", "multi_factor"])
async def test_a_least_score_that_an_answer_showed_keeps_its_tool(client: Any, ranker: str) -> None:
    params = {"query": "deploy an application and notify the team", "ranker": ranker}
    every = await client("GET", "/v1/retrieve_tools", token=SERVICE, params=params)
    assert every.body["tools"]
    for tool in every.body["tools"]:
        found = await client.names(
            "/v1/retrieve_tools", token=SERVICE, **params, min_score=str(tool["score"])
        )
        assert tool["name"] in found


async def test_debug_shows_the_vector_and_the_history_that_ranked(tmp_path: Path) -> None:
    memory = FeedbackVectors(FeedbackLimits(floor=1.0))
    async with (
        running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog_of(SERVERS),
            embedder=HashingEmbedder(),
            memory=memory,
        ) as service,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {ADMIN}"}) as session,
    ):
        past = ["roll the application out", "please roll the application out"]
        for text, vector in zip(past, await service.retriever.embed(past), strict=True):
            memory.learn(text, vector, "aws__deploy")
        body = {"query": "deploy an aplication", "ranker": "multi_factor", "debug": True}
        async with session.post(f"{service.url}/v1/retrieve_tools", json=body) as answer:
            found = await answer.json()
        corrected = (await service.retriever.embed(["deploy an application"]))[0]
    tools, debug = found["tools"], found["debug"]
    assert debug["query_embedding"] == pytest.approx(corrected.tolist())
    place = [tool["name"] for tool in tools].index("aws__deploy")
    assert debug["user_history_scores"][place] > 0.1
    for place, tool in enumerate(tools):
        weighed = (
            0.40 * max(0.0, debug["embedding_similarity_scores"][place])
            + 0.25 * debug["popularity_scores"][place]
            + 0.20 * debug["user_history_scores"][place]
            + 0.15 * debug["performance_scores"][place]
        )
        assert tool["score"] == pytest.approx(weighed, abs=1e-5)


async def test_snapshots_that_are_served_no_more_are_not_held(client: Any) -> None:
    service = client.service

    def held() -> int:
        gc.collect()
        records = (found for found in gc.get_objects() if type(found) is ToolRecord)
        return sum(record.server.startswith("brief") for record in records)

    for number in range(20):
        servers = {**SERVERS, f"brief{number}": SERVERS["aws"]}
        lists = {key: ServerLists(tools=tools) for key, tools in servers.items()}
        await service.publish(build_catalog(lists, previous=service.catalog)[0])
        assert await client.names("/v1/retrieve_tools", query="deploy", token=SERVICE)
    assert held() < 10 * len(SERVERS["aws"])


async def test_v1_is_the_cosine_and_v2_seven_tenths_of_it_and_three_of_the_words(
    client: Any,
) -> None:
    for server in ("aws", "slack"):
        await client("POST", "/v2/track_installation", json={"server": server})

    async def scores(path: str, **more: str) -> dict[str, float]:
        params = {"query": "deploy and notify", "top_k": "50", **more}
        found = await client("GET", path, params=params)
        return {tool["name"]: tool["score"] for tool in found.body["tools"]}

    v1, v2 = await scores("/retrieve_tools"), await scores("/v2/retrieve_tools")
    cosine = await scores("/v1/retrieve_tools", ranker="semantic")
    words = await scores("/v1/retrieve_tools", ranker="lexical")
    assert {name: score for name, score in v1.items() if name in cosine} == cosine
    assert max(words.values()) > 0
    assert v2 == {
        name: pytest.approx(0.7 * max(cosine[name], 0) + 0.3 * words[name], abs=3e-6)
        for name in cosine
    }
