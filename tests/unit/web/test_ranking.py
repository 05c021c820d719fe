"""Boosts, reasons and the agent, over REST."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.accounts.settings import AccountSettings
from armory.agent.catalog import CatalogSource
from armory.agent.loop import RetrievalAgent
from armory.llm.client import ChatClient
from armory.retrieval.rankers.base import RankSettings
from armory.security.authentication import StaticToken
from armory.testing.chat import ScriptedChat
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import ADMIN_TOKEN, catalog_of, running_service

pytestmark = pytest.mark.anyio
HEADERS = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "mail": [
        {
            "name": "send",
            "description": "Send a message",
            "_meta": {"dev.armory/tags": ["async", "compliance-certified"]},
        }
    ],
    "chat": [{"name": "post", "description": "Post a message"}],
}


async def ranked(url: str, **body: Any) -> dict[str, Any]:
    async with (
        aiohttp.ClientSession(headers=HEADERS) as session,
        session.post(f"{url}/v1/retrieve_tools", json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()
        found = (await answer.json())["tools"]
        return {entry["name"]: entry for entry in found}


async def test_context_boosts_multiply_where_configuration_switches_them_on(
    tmp_path: Path,
) -> None:
    catalog = catalog_of(TOOLS)
    scores: dict[bool, dict[str, Any]] = {}
    for on in (False, True):
        async with running_service(
            f"sqlite:///{tmp_path / f'{on}.db'}",
            catalog,
            embedder=HashingEmbedder(),
            rank=RankSettings(context_boosts=on),
        ) as service:
            context = {"hour": 18, "last_tool": "chat__other"}
            scores[on] = await ranked(service.url, query="a message", context=context)
            morning = await ranked(service.url, query="a message", context={"hour": 9})
    plain, boosted = scores[False], scores[True]
    send = plain["mail__send"]["score"]
    assert boosted["mail__send"]["score"] == pytest.approx(min(1, send * 1.2 * 1.25), abs=1e-5)
    assert morning["mail__send"]["score"] == pytest.approx(min(1, send * 1.25), abs=1e-5)
    post = plain["chat__post"]["score"]
    assert boosted["chat__post"]["score"] == pytest.approx(min(1, post * 1.15), abs=1e-5)
    reason = boosted["mail__send"]["reason"]
    assert "asynchronous, after 17:00" in reason
    assert "compliance certified" in reason
    assert "boosted" not in plain["mail__send"]["reason"]


async def test_without_an_hour_the_local_time_counts(tmp_path: Path) -> None:
    tags = {"dev.armory/tags": ["async", "low-latency"]}
    tools = {"mail": [{"name": "send", "description": "Send a message", "_meta": tags}]}
    async with running_service(
        f"sqlite:///{tmp_path / 'armory.db'}",
        catalog_of(tools),
        embedder=HashingEmbedder(),
        rank=RankSettings(context_boosts=True),
    ) as service:
        found = await ranked(service.url, query="a message")
    reason = found["mail__send"]["reason"]
    assert "asynchronous, after 17:00" in reason or "low latency, during the day" in reason


async def test_other_weights_change_the_sum(tmp_path: Path) -> None:
    weights = {"similarity": 0.7, "popularity": 0.1, "history": 0.1, "performance": 0.1}
    async with running_service(
        f"sqlite:///{tmp_path / 'armory.db'}",
        catalog_of(TOOLS),
        embedder=HashingEmbedder(),
        rank=RankSettings(weights=weights),
    ) as service:
        by_meaning = await ranked(service.url, query="send a message", ranker="semantic")
        found = await ranked(service.url, query="send a message")
    cosine = by_meaning["mail__send"]["score"]
    assert found["mail__send"]["score"] == pytest.approx(0.7 * cosine + 0.05, abs=1e-4)


TURNS = [
    'Thought: search\nAction: vector_search\nAction Input: {"query": "send a message"}',
    "Thought: enough\nFinal Answer: mail__send sends it.",
]


WITHOUT_EFFECT: dict[str, Any] = {
    "ranker": "lexical",
    "filter": {"server": "mail"},
    "debug": True,
    "context": {"hour": 18},
}
"""Parameters that the agent does not go by."""


async def test_the_agent_answers_with_its_trace_and_streams_it(tmp_path: Path) -> None:
    async with (
        ScriptedChat(TURNS) as chat,
        ChatClient(chat.url, "scripted") as model,
    ):
        catalog = catalog_of(TOOLS)
        late: list[Any] = []

        class Later:
            """The agent needs the service's retriever, which is made with the service."""

            async def run(self, question: str, **more: Any) -> Any:
                return await late[0].run(question, **more)

            def stream(self, question: str, **more: Any) -> Any:
                return late[0].stream(question, **more)

        async with running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog,
            embedder=HashingEmbedder(),
            agent=Later(),
            settings=AccountSettings(enabled=True, plans={"free": 9}),
            tokens=[StaticToken("ann", "the-token-of-ann", user="ann")],
        ) as service:
            late.append(RetrievalAgent(model, [CatalogSource(service.retriever)]))
            body = {"query": "send a message", "mode": "agent"}
            url = f"{service.url}/v1/retrieve_tools"
            async with aiohttp.ClientSession(headers=HEADERS) as session:
                usual = {"ranker": "multi_factor", "filter": {}, "debug": False, "context": {}}
                async with session.post(url, json={**body, **usual}) as answer:
                    assert answer.status == 200
                    found = await answer.json()
                assert found["tools"][0]["name"] == "mail__send"
                assert found["answer"].startswith("mail__send")
                assert next(step["kind"] for step in found["trace"]) == "thought"
                for name, without_effect in WITHOUT_EFFECT.items():
                    async with session.post(url, json={**body, name: without_effect}) as answer:
                        assert (await answer.json())["parameter"] == name
                        assert answer.status == 422
                last = {"query": "send", "mode": "agent", "last_tool": "mail__send"}
                async with session.get(url, params=last) as answer:
                    assert (await answer.json())["parameter"] == "last_tool"
                chat.requests.clear()
                accept = {"Accept": "text/event-stream"}
                async with session.post(url, json=body, headers=accept) as answer:
                    assert answer.content_type == "text/event-stream"
                    text = await answer.text()
                whose = {**accept, "Authorization": "Bearer the-token-of-ann"}
                async with session.post(url, json=body, headers=whose) as answer:
                    assert answer.headers["X-RateLimit-Remaining"] == "8"
                    await answer.read()
                await service.accounts.flush()
                logged = await service.accounts.query_log.recent()
    events = [part.split("\n", 1) for part in text.strip().split("\n\n")]
    kinds = [head.removeprefix("event: ") for head, _ in events]
    assert kinds[-1] == "result"
    assert {"thought", "action", "observation", "final_answer"} <= set(kinds)
    last = json.loads(events[-1][1].removeprefix("data: "))
    streamed = last["result"]
    assert streamed.keys() == found.keys()
    assert streamed["tools"] == found["tools"]  # each with its server, schema and relevance
    assert [record.query_id for record in logged[1:]] == [streamed["query_id"], found["query_id"]]
    assert logged[1].returned == tuple(tool["name"] for tool in streamed["tools"])
