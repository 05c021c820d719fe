"""Quotas of an identity, over MCP and REST, of one gateway and of two that share a Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from armory.config import load_text
from armory.runtime import Runtime, open_runtime
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.servers import RedisServer
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
TOKENS = {who: f"{who}-{'t' * 40}" for who in ("ann", "bob")}
ERROR = "dev.armory/error"


@pytest.fixture
async def upstream() -> AsyncIterator[HttpUpstream]:
    async with HttpUpstream() as upstream:
        yield upstream


class Client:
    """One caller of one gateway."""

    def __init__(self, runtime: Runtime, http: aiohttp.ClientSession, who: str) -> None:
        assert runtime.listening is not None
        self._url, self._http = runtime.listening.url, http
        self._credential = {"Authorization": f"Bearer {TOKENS[who]}"}

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = modern_body(1, method, params)
        headers = {**modern_headers(body), **self._credential}
        async with self._http.post(f"{self._url}/mcp", json=body, headers=headers) as answer:
            text = await answer.text()
        if answer.content_type == "text/event-stream":
            text = [line for line in text.splitlines() if line.startswith("data: {")][-1][6:]
        found: dict[str, Any] = json.loads(text)
        return found

    async def call(self, name: str = "web__who") -> dict[str, Any]:
        """`_meta` of the result; empty: it went well."""
        result = (await self.ask("tools/call", {"name": name, "arguments": {}}))["result"]
        assert bool(result.get("isError")) == (ERROR in result.get("_meta", {}))
        return result.get("_meta", {}).get(ERROR, {})

    async def rest(
        self, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any], aiohttp.ClientResponse]:
        method = "GET" if body is None else "POST"
        async with self._http.request(
            method, self._url + path, json=body, headers=self._credential
        ) as answer:
            return answer.status, await answer.json(), answer

    async def metrics(self) -> list[str]:
        async with self._http.get(f"{self._url}/metrics", headers=self._credential) as answer:
            return (await answer.text()).splitlines()


@asynccontextmanager
async def gateway(
    upstream: HttpUpstream, home: Path, security: dict[str, Any], **blocks: Any
) -> AsyncGenerator[tuple[Runtime, aiohttp.ClientSession]]:
    tokens = {who: {"token": token, "scopes": ["admin"]} for who, token in TOKENS.items()}
    text = yaml.safe_dump(
        {
            "upstreams": {"web": {"url": upstream.url}},
            "security": {"tokens": tokens, "pinning": "off", **security},
            **blocks,
        }
    )
    loaded = load_text(text, environ={"ARMORY_HOME": str(home)})
    async with (
        open_runtime(loaded, address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession() as http,
    ):
        await runtime.searchable()
        yield runtime, http


async def test_a_quota_is_checked_before_anything_is_forwarded(
    upstream: HttpUpstream, tmp_path: Path
) -> None:
    quotas = [{"who": ["ann"], "calls_per_day": 2, "searches_per_day": 2}]
    audit = {"audit": {"to": str(tmp_path / "audit.jsonl")}}
    opened = gateway(upstream, tmp_path / "home", {"quotas": quotas}, observability=audit)
    async with opened as (runtime, http):
        ann, bob = Client(runtime, http, "ann"), Client(runtime, http, "bob")
        assert await ann.call() == {}
        status, _, _ = await ann.rest("/v1/tools/web__who/call", {"arguments": {}})
        assert status == 200
        asked = len(upstream.requests)
        refused = await ann.call()
        assert refused["code"] == "quota_exceeded"
        assert 0 < refused["retry_after_s"] <= 86_400
        status, problem, answer = await ann.rest("/v1/tools/web__who/call", {"arguments": {}})
        assert (status, problem["code"]) == (429, "quota_exceeded")
        assert 0 < int(answer.headers["Retry-After"]) <= 86_400
        assert len(upstream.requests) == asked
        assert await bob.call() == {}

        listed = await ann.ask("tools/list", {"query": "who am I"})
        assert "result" in listed
        status, _, _ = await ann.rest("/v1/search", {"queries": ["who am I"]})
        assert status == 200
        status, problem, answer = await ann.rest("/v1/search", {"queries": ["who am I"]})
        assert (status, problem["code"]) == (429, "quota_exceeded")
        assert "2 searches a day" in problem["detail"]
        assert 0 < int(answer.headers["Retry-After"]) <= 86_400
        error = (await ann.ask("tools/list", {"query": "who am I"}))["error"]
        assert error["data"]["code"] == "quota_exceeded"
        assert "result" in await ann.ask("tools/list", {})  # a whole list is no search

        lines = await ann.metrics()
        assert 'armory_quota_refused_total{limit="calls"} 2.0' in lines
        assert 'armory_quota_refused_total{limit="searches"} 2.0' in lines
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    refusals = [r for r in records if r["outcome"] == "refused" and r["endpoint"] == "/mcp"]
    assert [(r["who"], r["method"], r["tool"]) for r in refusals] == [
        ("token:ann", "tools/call", "web__who"),
        ("token:ann", "tools/list", None),
    ]
    assert refusals[0]["code"] == "quota_exceeded"
    assert refusals[0]["upstream"] is None


async def test_a_call_over_rest_is_one_request(upstream: HttpUpstream, tmp_path: Path) -> None:
    security = {"rate_limit": {"per_s": 0.001, "burst": 3}}
    async with gateway(upstream, tmp_path, security) as (runtime, http):
        for who, name, answered in (("ann", "web__who", 200), ("bob", "web__nothing", 404)):
            client = Client(runtime, http, who)
            path = f"/v1/tools/{name}/call"
            codes = [(await client.rest(path, {"arguments": {}}))[0] for _ in range(4)]
            assert codes == [answered] * 3 + [429]


async def test_a_place_is_given_back_however_its_call_ends(
    upstream: HttpUpstream, tmp_path: Path
) -> None:
    quotas = [{"concurrency": 1}]
    async with gateway(upstream, tmp_path / "home", {"quotas": quotas}) as (runtime, http):
        ann = Client(runtime, http, "ann")
        for _ in range(2):
            assert await ann.call() == {}
            assert (await ann.ask("tools/call", {"name": "web__nothing"}))["error"]
            await ann.ask("tools/call", {"name": "web__fail", "arguments": {}})
            assert "result" in await ann.ask("prompts/get", {"name": "web__greet"})
        upstream.script.started.clear()
        waiting = asyncio.ensure_future(ann.call("web__wait"))
        await asyncio.wait_for(upstream.script.started.wait(), 60)
        refused = await ann.call()
        assert (refused["code"], refused["retry_after_s"]) == ("quota_exceeded", 1.0)
        assert (await ann.ask("prompts/get", {"name": "web__greet"}))["error"]["data"]["code"] == (
            "quota_exceeded"
        )
        assert await Client(runtime, http, "bob").call() == {}
        upstream.script.release.set()
        assert await waiting == {}
        assert await ann.call() == {}


@pytest.mark.redis
async def test_two_gateways_count_together_and_each_for_itself_while_redis_is_away(
    upstream: HttpUpstream, redis: RedisServer, tmp_path: Path
) -> None:
    security = {
        "quotas": [{"who": ["ann"], "calls_per_day": 3, "concurrency": 1}],
        "rate_limit": {"per_s": 0.001, "burst": 6},
    }
    shared: dict[str, Any] = {"storage": {"redis": redis.url}, "tool_rag": {"enabled": False}}
    async with (
        gateway(upstream, tmp_path / "one", security, **shared) as one,
        gateway(upstream, tmp_path / "two", security, **shared) as two,
    ):
        ann1, ann2 = Client(*one, "ann"), Client(*two, "ann")
        waiting = asyncio.ensure_future(ann1.call("web__wait"))
        await asyncio.wait_for(upstream.script.started.wait(), 60)
        assert "1 requests at a time" in await _said(ann2)
        upstream.script.release.set()
        assert await waiting == {}
        used = 1
        async with asyncio.timeout(60):
            while used < 3:  # the place is given back a moment after the answer
                told = await (ann2, ann1)[used % 2].call()
                used += not told
                assert told.get("code") in (None, "quota_exceeded")
        assert "3 calls a day" in await _said(ann1)
        assert "3 calls a day" in await _said(ann2)

        bob1, bob2 = Client(*one, "bob"), Client(*two, "bob")
        codes = [(await (bob1, bob2)[at % 2].call()).get("code") for at in range(8)]
        assert codes == [None] * 6 + ["rate_limited"] * 2

        redis.kill()
        assert await ann1.call() == {}  # counted by each for itself now
        assert await ann2.call() == {}
        status, told, _ = await bob1.rest("/readyz")
        assert (status, told["status"]) == (200, "ready")
        assert any("limits: counted by each replica for itself" in m for m in told["not_ready"])
        redis.start()
        limits = one[0].limits
        await until(lambda: limits.away is None, 60)  # and nobody calls meanwhile
        _, told, _ = await bob1.rest("/readyz")
        assert not any("limits" in m for m in told["not_ready"])


async def _said(client: Client) -> str:
    result = (await client.ask("tools/call", {"name": "web__who", "arguments": {}}))["result"]
    assert result["isError"] is True
    text: str = result["content"][0]["text"]
    return text
