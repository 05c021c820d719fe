"""A modern client that listens for its tasks hears of them, as of a server that it talks to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.protocol.capabilities import TASKS_EXTENSION
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.upstreams.exchange import PREFIX, Json, Request, ScriptState, Wire
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from tests.protocol.gateways import Running, running

pytestmark = pytest.mark.anyio
TAKES_TASKS = {"extensions": {TASKS_EXTENSION: {}}}
NEWS = "notifications/tasks"


def task(id: str, status: str = "working", **more: Any) -> Json:
    times = {"createdAt": "2026-11-28T10:00:00Z", "lastUpdatedAt": "2026-11-28T10:00:00Z"}
    return {"taskId": id, "status": status, **times, "ttlMs": 60_000, "x-kept": 1.50, **more}


class Working(Script):
    """A server whose tool makes a task of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.state: dict[str, str] = {}
        self.behaviour["echo"] = self._make

    async def _make(self, _state: ScriptState, _request: Request) -> Json:
        self.made += 1
        return {"resultType": "task", **task(f"t{self.made}")}

    async def answer(self, message: Json, wire: Wire) -> Json | None:
        if message["method"] != "tasks/get":
            return await super().answer(message, wire)
        id = message["params"]["taskId"]
        result = {"resultType": "complete", **task(id, self.state.get(id, "working"))}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


@pytest.fixture
async def upstream() -> AsyncIterator[HttpUpstream]:
    async with HttpUpstream(Working(), "modern") as found:
        yield found


@pytest.fixture
async def gateway(upstream: HttpUpstream, tmp_path: Path) -> AsyncIterator[Running]:
    config = {"upstreams": {"up": {"url": upstream.url}}, "tool_rag": {"enabled": False}}
    async with running(tmp_path, config) as found:
        yield found


async def made(gateway: Running, path: str, tool: str) -> str:
    """A task, by the id that its client knows."""
    body = modern_body(1, "tools/call", {"name": tool, "arguments": {}}, None, TAKES_TASKS)
    url = gateway.url + path
    async with gateway.http.post(url, json=body, headers=modern_headers(body)) as answer:
        result = (await messages(answer))[-1]["result"]
    assert result["resultType"] == "task"
    return result["taskId"]


@asynccontextmanager
async def listening(
    gateway: Running, path: str, ids: list[str]
) -> AsyncGenerator[tuple[Json, aiohttp.ClientResponse]]:
    """The acknowledgement of a stream, and what comes on it."""
    wanted = {"notifications": {"taskIds": ids}}
    body = modern_body("sub", "subscriptions/listen", wanted, None, TAKES_TASKS)
    url = gateway.url + path
    async with gateway.http.post(url, json=body, headers=modern_headers(body)) as stream:
        acknowledged = await heard(stream)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        yield acknowledged["params"]["notifications"], stream


async def heard(stream: aiohttp.ClientResponse) -> Json:
    async with asyncio.timeout(20):
        async for line in stream.content:
            if line.startswith(b"data: {"):
                return json.loads(line.removeprefix(b"data: "))
    raise AssertionError("the stream ended")


def followed(upstream: HttpUpstream) -> list[Any]:
    """What the upstream is listened to for, of tasks."""
    wanted = [wanted for _, wanted in upstream.listens.values()]
    return [one["taskIds"] for one in wanted if "taskIds" in one]


@pytest.mark.parametrize(
    ("path", "tool", "id"), [("/mcp", "up__echo", "up:t1"), ("/mcp/up", "echo", "t1")]
)
async def test_a_client_hears_of_its_own_tasks(
    gateway: Running, upstream: HttpUpstream, path: str, tool: str, id: str
) -> None:
    assert await made(gateway, path, tool) == id
    async with listening(gateway, path, [id, f"{id}0", "none:1"]) as (honoured, stream):
        assert honoured == {"taskIds": [id]}
        assert followed(upstream) == [["t1"]]
        asked = [m for _, m in upstream.requests if m["method"] == "subscriptions/listen"][-1]
        declared = asked["params"]["_meta"][f"{PREFIX}clientCapabilities"]
        assert declared == TAKES_TASKS
        await upstream.announce(NEWS, task("t2"))  # is not its own
        question = {"method": "elicitation/create", "params": {"message": "?"}}
        asks = task("t1", "input_required", inputRequests={"a": question})
        await upstream.announce(NEWS, asks)
        told = await heard(stream)
        assert told["method"] == NEWS
        meta = {f"{PREFIX}subscriptionId": "sub"}
        assert told["params"] == {**asks, "taskId": id, "_meta": meta}
        link = {"type": "resource_link", "uri": "mem://one", "name": "one"}
        await upstream.announce(NEWS, task("t1", "completed", result={"content": [link]}))
        done = (await heard(stream))["params"]
        shown = "mem://one" if path == "/mcp/up" else "up+mem://one"
        assert (done["status"], done["result"]["content"][0]["uri"]) == ("completed", shown)
    await until(lambda: followed(upstream) == [])


async def test_what_happens_while_the_stream_is_away_is_heard(
    gateway: Running, upstream: HttpUpstream
) -> None:
    ids = [await made(gateway, "/mcp", "up__echo") for _ in range(2)]
    async with listening(gateway, "/mcp", ids) as (honoured, stream):
        assert honoured == {"taskIds": ids}
        assert isinstance(upstream.script, Working)
        upstream.script.state = {"t1": "failed"}
        upstream.end_streams()
        told = [(await heard(stream))["params"] for _ in ids]
        assert [(one["taskId"], one["status"]) for one in told] == [
            ("up:t1", "failed"),
            ("up:t2", "working"),
        ]
        assert "resultType" not in told[0]
        assert followed(upstream) == [["t1", "t2"]]
        upstream.end_streams()
        await heard(stream)
        assert followed(upstream) == [["t2"]]


async def test_what_the_upstream_does_not_report_is_not_promised(
    gateway: Running, upstream: HttpUpstream
) -> None:
    id = await made(gateway, "/mcp", "up__echo")
    upstream.honours = frozenset(("toolsListChanged",))
    async with listening(gateway, "/mcp", [id]) as (honoured, _):
        assert honoured == {}
    upstream.lists_stay = True
    async with listening(gateway, "/mcp", [id]) as (honoured, _):
        assert honoured == {}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("subscriptions/listen", {"notifications": {"taskIds": ["up:t1"]}}),
        ("tasks/get", {"taskId": "up:t1"}),
        ("tasks/update", {"taskId": "none:1", "inputResponses": {}}),
        ("tasks/cancel", {"taskId": "up:t1"}),
    ],
)
async def test_who_takes_no_tasks_cannot_ask_about_any(
    gateway: Running, method: str, params: Json
) -> None:
    assert await made(gateway, "/mcp", "up__echo") == "up:t1"
    body = modern_body("sub", method, params)
    headers = {**modern_headers(body), "Mcp-Name": params.get("taskId", "")}
    async with gateway.http.post(gateway.url + "/mcp", json=body, headers=headers) as answer:
        assert answer.status == 400
        error = (await messages(answer))[-1]["error"]
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": TAKES_TASKS})


async def test_a_session_is_made_no_task_of_the_modern_era(
    gateway: Running, upstream: HttpUpstream
) -> None:
    client = LegacyClient(gateway.url + "/mcp", gateway.http, "2025-11-25")
    await client.initialize({"extensions": {TASKS_EXTENSION: {}, "com.example/x": {"a": 1}}})
    await client.request("tools/call", {"name": "up__who", "arguments": {}})
    asked = [m for _, m in upstream.requests if m["method"] == "tools/call"][-1]
    declared = asked["params"]["_meta"][f"{PREFIX}clientCapabilities"]
    assert declared == {"extensions": {"com.example/x": {"a": 1}}}
