"""An upstream that shows each caller other tools, and says that its lists are private."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml
from aiohttp import web

from armory.config import load_file
from armory.gateway.views import principal_lists
from armory.runtime import open_runtime
from armory.runtime.running import Runtime
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
META = "io.modelcontextprotocol/"
SCHEMA = {"type": "object", "properties": {}}


@dataclass
class Secretive:
    """A modern server whose tools depend on the header `X-User`."""

    scope: str = "private"
    tools: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, Any])
    listed: list[str] = field(default_factory=list[str])
    streams: dict[str, web.StreamResponse] = field(default_factory=dict[str, web.StreamResponse])
    ids: dict[str, Any] = field(default_factory=dict[str, Any])
    broken: bool = False

    async def post(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        user = request.headers["X-User"].partition("-")[0]
        method, params = body["method"], body["params"]
        if method == "subscriptions/listen":
            return await self.listen(request, user, body["id"])
        result: dict[str, Any] = {"resultType": "complete"}
        if method == "server/discover":
            result |= {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": True}, "prompts": {}},
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {META + "serverInfo": {"name": "secretive", "version": "1"}},
            }
        elif method == "tools/list":
            self.listed.append(user)
            if self.broken and user != "armory":
                return web.Response(status=403)
            result |= {"tools": self.tools.get(user, []), "ttlMs": 0, "cacheScope": self.scope}
        elif method == "prompts/list":
            prompts = [{"name": f"hello-{user}"}]
            result |= {"prompts": prompts, "ttlMs": 0, "cacheScope": self.scope}
        else:
            text = f"{params['name']} for {user}"
            result["content"] = [{"type": "text", "text": text}]
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": result})

    async def listen(self, request: web.Request, user: str, id: Any) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        self.streams[user], self.ids[user] = stream, id
        await self.tell(user, "notifications/subscriptions/acknowledged", {"notifications": {}})
        try:
            await asyncio.Event().wait()
        finally:
            if self.streams.get(user) is stream:
                del self.streams[user]
        return stream

    async def tell(self, user: str, method: str, params: dict[str, Any]) -> None:
        params = {**params, "_meta": {META + "subscriptionId": self.ids[user]}}
        data = msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})
        await self.streams[user].write(b"data: " + data + b"\n\n")


def tool(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": SCHEMA}


@dataclass
class Rig:
    server: Secretive
    runtime: Runtime
    url: str
    http: aiohttp.ClientSession

    async def ask(
        self, who: str, method: str, params: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        body = modern_body(1, method, params, **more)
        headers = {**modern_headers(body), "Authorization": f"Bearer token-of-{who}"}
        async with self.http.post(f"{self.url}/mcp", json=body, headers=headers) as response:
            return (await messages(response))[-1]

    async def tools(self, who: str, **more: Any) -> dict[str, str]:
        listed = (await self.ask(who, "tools/list", **more))["result"]["tools"]
        return {entry["name"]: entry["description"] for entry in listed}


def config(url: str, **upstream: Any) -> dict[str, Any]:
    return {
        "upstreams": {"up": {"url": url, "headers": {"X-User": "${principal}"}, **upstream}},
        "security": {
            "tokens": {who: {"token": f"token-of-{who}", "user": who} for who in ("ann", "bob")}
        },
        "tool_rag": {"search_tools": False, "call_tool": False, "embedding_model": "embedded"},
        "observability": {"log_level": "warning"},
    }


@pytest.fixture
async def rig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Rig]:
    more: dict[str, Any] = getattr(request, "param", {})
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    server = Secretive(scope=more.pop("scope", "private"))
    server.tools = {
        "armory": [tool("shared", "everybody's own"), tool("gate", "only the gateway's")],
        "ann": [tool("shared", "everybody's own"), tool("paint", "paint a picture for ann")],
        "bob": [tool("shared", "bob's other one"), tool("weigh", "weigh a parcel for bob")],
    }
    app = web.Application()
    app.router.add_post("/mcp", server.post)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    file = tmp_path / "armory.yaml"
    file.write_text(yaml.safe_dump(config(f"http://127.0.0.1:{port}/mcp", **more)))
    async with (
        open_runtime(load_file(file), address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http,
    ):
        await runtime.searchable()
        assert runtime.listening is not None
        yield Rig(server, runtime, runtime.listening.url.removesuffix("/mcp"), http)
    await runner.cleanup()


async def test_nobody_sees_what_another_was_shown(rig: Rig) -> None:
    ann, bob = await rig.tools("ann"), await rig.tools("bob")
    assert ann == {"up__shared": "everybody's own", "up__paint": "paint a picture for ann"}
    assert bob == {"up__shared": "bob's other one", "up__weigh": "weigh a parcel for bob"}
    called = await rig.ask("ann", "tools/call", {"name": "up__paint", "arguments": {}})
    assert called["result"]["content"][0]["text"] == "paint for ann"
    for who, name in (("ann", "up__weigh"), ("bob", "up__paint"), ("bob", "up__gate")):
        refused = await rig.ask(who, "tools/call", {"name": name, "arguments": {}})
        assert refused["error"]["code"] == -32602
    prompts = (await rig.ask("ann", "prompts/list"))["result"]["prompts"]
    assert [prompt["name"] for prompt in prompts] == ["up__hello-ann"]


async def test_a_query_finds_ones_own_tools_only(rig: Rig) -> None:
    query = {"dev.armory/query": "weigh a parcel", "dev.armory/threshold": 0}
    bob = await rig.tools("bob", meta=query)
    assert list(bob.items())[-1] == ("up__weigh", "weigh a parcel for bob")
    assert bob.get("up__shared", "bob's other one") == "bob's other one"
    assert "up__weigh" not in await rig.tools("ann", meta=query)


async def test_news_of_one_caller_are_its_own(rig: Rig) -> None:
    ann, bob = await listening(rig, "ann"), await listening(rig, "bob")
    for who in ("ann", "bob"):
        await rig.tools(who)
    rig.server.tools["ann"].append(tool("frame", "frame a picture"))
    await rig.server.tell("ann", "notifications/tools/list_changed", {})
    assert await next_change(ann) == "notifications/tools/list_changed"
    assert "up__frame" in await rig.tools("ann")
    assert "up__frame" not in await rig.tools("bob")
    rig.server.tools["bob"].pop()
    await rig.server.tell("bob", "notifications/tools/list_changed", {})
    # The first that bob hears is his own.
    assert await next_change(bob) == "notifications/tools/list_changed"
    assert list(await rig.tools("bob")) == ["up__shared"]
    for response in (ann, bob):
        response.close()


async def test_headers_are_checked_against_ones_own_definition_from_the_first_call_on(
    rig: Rig,
) -> None:
    zoned = {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}}
    rig.server.tools["ann"].append({**tool("clock", "what time is it"), "inputSchema": zoned})
    body = modern_body(1, "tools/call", {"name": "clock", "arguments": {"zone": "UTC"}})
    headers = {**modern_headers(body), "Authorization": "Bearer token-of-ann"}
    for given, status in (("CET", 400), ("UTC", 200)):
        sent = {**headers, "Mcp-Param-Zone": given}
        async with rig.http.post(f"{rig.url}/mcp/up", json=body, headers=sent) as response:
            assert response.status == status
            answer = (await messages(response))[-1]
        assert ("error" in answer) == (status == 400)


async def test_who_is_given_no_list_is_offered_nothing(rig: Rig) -> None:
    rig.server.broken = True
    assert await rig.tools("ann") == {}


async def test_an_answer_says_whose_lists_it_lacks(rig: Rig) -> None:
    async def told(**more: Any) -> dict[str, Any]:
        return (await rig.ask("ann", "tools/list", **more))["result"]["_meta"]

    rig.server.broken = True
    lacking = "without the lists of up, which have not come yet"
    assert (await told())["dev.armory/degraded"] == lacking
    found = await told(meta={"dev.armory/query": "paint"})
    assert found["dev.armory/selection"]["degraded"] == lacking
    rig.server.broken = False
    await rig.runtime.gateway.close()  # forgets what it did not get
    assert "dev.armory/degraded" not in await told()


async def test_lists_that_come_late_are_told_of(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principal_lists, "RETRY_S", 0.0)
    rig.server.broken = True
    ann = await listening(rig, "ann")
    assert await rig.tools("ann") == {}
    rig.server.broken = False
    assert await rig.tools("ann") == {}  # nobody waits twice
    assert await next_change(ann) == "notifications/tools/list_changed"
    assert "up__paint" in await rig.tools("ann")
    ann.close()


@pytest.mark.parametrize("rig", [{"scope": "public"}, {"lists": "shared"}], indirect=True)
async def test_lists_that_are_not_private_are_fetched_once(rig: Rig) -> None:
    assert list(await rig.tools("ann")) == ["up__shared", "up__gate"]
    assert set(rig.server.listed) == {"armory"}


async def test_legacy_sessions_see_their_own(rig: Rig) -> None:
    headers = {"Authorization": "Bearer token-of-bob"}
    async with aiohttp.ClientSession(headers=headers) as http:
        client = LegacyClient(f"{rig.url}/mcp", http, "2025-11-25")
        await client.initialize({})
        listed = await client.request("tools/list")
    assert [entry["name"] for entry in listed["result"]["tools"]] == ["up__shared", "up__weigh"]


async def listening(rig: Rig, who: str) -> aiohttp.ClientResponse:
    wanted = {"notifications": {"toolsListChanged": True}}
    body = modern_body(9, "subscriptions/listen", wanted)
    headers = {**modern_headers(body), "Authorization": f"Bearer token-of-{who}"}
    response = await rig.http.post(f"{rig.url}/mcp", json=body, headers=headers)
    assert await next_change(response) == "notifications/subscriptions/acknowledged"
    return response


async def next_change(response: aiohttp.ClientResponse) -> str:
    async with asyncio.timeout(10):
        async for line in response.content:
            if line.startswith(b"data:") and b'"method"' in line:
                return msgspec.json.decode(line[5:])["method"]
    raise AssertionError("the stream ended")
