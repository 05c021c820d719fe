"""Rates: of each caller, the same over MCP and REST, counted, changed while it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.config import Loaded, load_text
from armory.runtime import Runtime, open_runtime

pytestmark = pytest.mark.anyio
CONFIG = f"""
upstreams:
  notes: {{command: {sys.executable}, args: [-m, armory.demo]}}
tool_rag: {{enabled: false}}
security:
  tokens:
    ann: {{token: the-token-of-ann}}
    bob: {{token: the-token-of-bob}}
  pinning: "off"
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def loaded(tmp_path: Path, rate: str) -> Loaded:
    return load_text(CONFIG + f"  rate_limit: {rate}\n", environ={"ARMORY_HOME": str(tmp_path)})


class Client:
    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession) -> None:
        assert runtime.listening is not None
        self.url = runtime.listening.url
        self.session = session

    async def call(self, who: str) -> dict[str, Any]:
        params = {"name": "notes__list_tags", "arguments": {}, "_meta": META}
        return await self.ask(who, "tools/call", params)

    async def ask(self, who: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        headers = {
            "Authorization": f"Bearer the-token-of-{who}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
        }
        named = params.get("name") or params.get("uri")
        if named is not None:
            headers["Mcp-Name"] = named
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self.session.post(f"{self.url}/mcp", json=body, headers=headers) as answer:
            text = await answer.text()
            if answer.content_type == "text/event-stream":  # it took a while
                text = [line for line in text.splitlines() if line.startswith("data: {")][-1][6:]
            found: dict[str, Any] = json.loads(text)
            return found

    async def catalog(self, who: str) -> tuple[int, str | None, dict[str, Any]]:
        headers = {"Authorization": f"Bearer the-token-of-{who}"}
        async with self.session.get(f"{self.url}/v1/catalog", headers=headers) as answer:
            return answer.status, answer.headers.get("Retry-After"), await answer.json()

    async def metrics(self) -> list[str]:
        async with self.session.get(f"{self.url}/metrics") as answer:
            return (await answer.text()).splitlines()


async def test_a_caller_that_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    slow = loaded(tmp_path, "{per_s: 0.001, burst: 2}")
    async with (
        open_runtime(slow, address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession() as session,
    ):
        await runtime.ready()
        client = Client(runtime, session)
        assert not (await client.call("ann"))["result"]["isError"]
        assert (await client.catalog("ann"))[0] == 200

        status, retry_after, problem = await client.catalog("ann")
        assert (status, problem["code"]) == (429, "rate_limited")
        assert 900 < int(retry_after or 0) <= 1000
        assert "more than 0.001 requests a second" in problem["detail"]
        refused = (await client.call("ann"))["result"]
        assert refused["isError"] is True
        told = refused["_meta"]["dev.armory/error"]
        assert told["code"] == "rate_limited"
        assert 900 < told["retry_after_s"] <= 1000
        listed = await client.ask("ann", "tools/list", {"_meta": META})
        assert len(listed["result"]["tools"]) == 12  # a full list costs nothing

        assert (await client.catalog("bob"))[0] == 200
        lines = await client.metrics()
        assert "armory_rate_limited_total 2.0" in lines
        label = 'method="GET",route="/v1/catalog"'
        assert f'armory_rest_requests_total{{{label},status="200"}} 2.0' in lines
        assert f'armory_rest_requests_total{{{label},status="429"}} 1.0' in lines
        assert 'armory_rest_request_seconds_count{route="/v1/catalog"} 3.0' in lines

        report = await runtime.reload(loaded(tmp_path, "null"))
        assert report.applied == ["security"]
        assert (await client.catalog("ann"))[0] == 200
        assert not (await client.call("ann"))["result"]["isError"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "notes__list_tag", "arguments": {}}),
        ("tools/call", {"name": "call_tool", "arguments": {"name": "notes__list_tag"}}),
        ("prompts/get", {"name": "notes__secret"}),
        ("resources/read", {"uri": "secret+file:///a"}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "notes__secret"},
                "argument": {"name": "a", "value": ""},
            },
        ),
    ],
)
async def test_names_that_do_not_exist_count_so_that_none_can_be_guessed(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    slow = loaded(tmp_path, "{per_s: 0.001, burst: 2}")
    async with (
        open_runtime(slow, address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession() as session,
    ):
        await runtime.ready()
        client = Client(runtime, session)
        guess = {**params, "_meta": META}
        told = [str(await client.ask("ann", method, guess)) for _ in range(3)]
        assert ["unknown" in answer for answer in told] == [True, True, False], told
        assert "more than 0.001 requests a second" in told[2]
        assert "rate_limited" in told[2]
        assert "list_tags" not in told[2]
        assert "unknown" in str(await client.ask("bob", method, guess))
        assert (await client.call("ann"))["result"]["isError"] is True
        assert "armory_rate_limited_total 2.0" in await client.metrics()


async def test_a_user_has_one_rate_whatever_credential_it_comes_with(tmp_path: Path) -> None:
    ann = "ann: {token: the-token-of-ann, user: ann}"
    more = "laptop: {token: the-token-of-laptop, user: ann}"
    text = CONFIG.replace("ann: {token: the-token-of-ann}", f"{ann}\n    {more}")
    text += "  rate_limit: {per_s: 0.001, burst: 2}\n"
    slow = load_text(text, environ={"ARMORY_HOME": str(tmp_path)})
    async with (
        open_runtime(slow, address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession() as session,
    ):
        await runtime.ready()
        client = Client(runtime, session)
        assert not (await client.call("ann"))["result"]["isError"]
        assert (await client.catalog("laptop"))[0] == 200
        assert (await client.call("laptop"))["result"]["isError"] is True
        assert (await client.catalog("ann"))[0] == 429
        assert not (await client.call("bob"))["result"]["isError"]


async def test_where_retrieval_is_off_no_query_of_the_plan_is_used_up(tmp_path: Path) -> None:
    text = """
tool_rag: {enabled: false}
security: {tokens: {ann: {token: the-token-of-ann, user: ann}}}
accounts: {enabled: true, plans: {free: {queries_limit: 1}}}
"""
    configured = load_text(text, environ={"ARMORY_HOME": str(tmp_path)})
    async with (
        open_runtime(configured, address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession(headers={"Authorization": "Bearer the-token-of-ann"}) as session,
    ):
        await runtime.ready()
        url = Client(runtime, session).url
        for path in ("/retrieve_tools", "/v2/retrieve_tools", "/v1/retrieve_tools"):
            async with session.get(url + path, params={"query": "deploy"}) as answer:
                said = await answer.json()
                assert (answer.status, said["code"]) == (503, "backend")
        async with session.get(f"{url}/v1/quota") as answer:
            assert (await answer.json())["current_month_usage"] == 0
