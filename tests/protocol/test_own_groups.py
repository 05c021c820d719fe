"""Groups that upstreams have of their own, behind one gateway, in both eras; and those of packs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.accounts.packs import PACK, Pack
from armory.protocol.capabilities import GROUPS_DECLARED, GROUPS_EXTENSION
from armory.runtime.running import Runtime
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.upstreams.exchange import Json, RpcFailure, Wire, definition
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from tests.protocol.gateways import running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
TOOLS = ("open", "close", "label", "merge", "review", "who")
GROUPS: dict[str, Json] = {
    "issues": {
        "title": "Issues",
        "description": "What is to be done",
        "instructions": "Look before you open one.",
        "tools": ["open", "close"],
        "groups": ["labels", "issues"],
    },
    "labels": {"description": "Their colours", "tools": ["label"], "groups": ["issues"]},
    "Pulls!": {"description": "What is done", "tools": ["merge", "review"]},
    "broken": {"description": "It cannot be had", "tools": ["who"]},
    "empty": {"description": "Nothing of tools", "tools": []},
}
TOP = ("issues", "Pulls!", "broken", "empty")


@dataclass
class Grouping(Script):
    """A server with groups; who declares them is listed what is in none."""

    groups: dict[str, Json] = field(default_factory=lambda: dict(GROUPS))

    async def _result(self, message: Json, wire: Wire) -> Json:
        params: Json = message.get("params") or {}
        method = message["method"]
        declared = GROUPS_EXTENSION in wire.capabilities.get("extensions", {})
        if method.startswith("groups/") and not declared:
            raise RpcFailure(-32601, "Method not found")
        if method == "groups/list":
            start = int(params.get("cursor") or 0)
            page: Json = {"groups": [self._told(name) for name in TOP[start : start + 2]]}
            return page if start else {**page, "nextCursor": "2"}
        if method == "groups/get":
            found = self.groups.get(params["name"])
            if found is None or params["name"] == "broken":
                raise RpcFailure(-32002, "Group not found")
            inner = [self._told(name) for name in found.get("groups", ())]
            contents = {"tools": [definition(name) for name in found["tools"]], "groups": inner}
            told = {k: v for k, v in found.items() if k == "instructions"}
            return {"contents": contents, **told}
        answer = await super()._result(message, wire)
        if method == "tools/list" and declared:
            scoped = {tool for group in self.groups.values() for tool in group["tools"]}
            answer["tools"] = [tool for tool in answer["tools"] if tool["name"] not in scoped]
        return answer

    def _told(self, name: str) -> Json:
        group = self.groups[name]
        return {"name": name, **{k: v for k, v in group.items() if k in ("title", "description")}}


@dataclass
class World:
    """A gateway before one upstream with groups, and its clients."""

    runtime: Runtime
    url: str
    http: aiohttp.ClientSession
    script: Grouping
    upstream: HttpUpstream

    async def ask(self, method: str, params: Any = None, *, at: str = "", who: str = "ann") -> Any:
        body = modern_body(1, method, params, capabilities=GROUPS_DECLARED)
        headers = {**modern_headers(body), "Authorization": f"Bearer token-of-{who}"}
        async with self.http.post(self.url + at, json=body, headers=headers) as response:
            return (await messages(response))[-1]

    async def listed(self, **more: Any) -> list[Any]:
        return (await self.ask("groups/list", **more))["result"]["groups"]

    async def got(self, name: str, **more: Any) -> Any:
        return (await self.ask("groups/get", {"name": name}, **more))["result"]


@asynccontextmanager
async def opened(folder: Path, era: str, *, groups: bool = True) -> AsyncGenerator[World]:
    script = Grouping(name="hub", tools=[definition(name) for name in TOOLS])
    script.capabilities = {**script.capabilities, **GROUPS_DECLARED}
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(HttpUpstream(script, eras=era))
        config = {
            "server": {"experimental": ["groups"] if groups else []},
            "upstreams": {"hub": {"url": upstream.url}},
            "accounts": {"enabled": True},
            "storage": {"url": f"sqlite:///{folder / 'armory.db'}"},
            "security": {
                "tokens": {
                    "ann": {"token": "token-of-ann"},
                    "bob": {"token": "token-of-bob"},
                    "eve": {"token": "token-of-eve", "user": "eve"},
                },
                "policies": [
                    {"who": ["ann", "eve"], "allow": ["*"]},
                    {"who": ["bob"], "allow": ["hub__label", "hub__who"]},
                ],
            },
            "tool_rag": {"embedding_model": "embedded"},
            "observability": {"log_level": "error"},
        }
        found = await stack.enter_async_context(running(folder, config))
        yield World(found.runtime, f"{found.url}/mcp", found.http, script, upstream)


@pytest.fixture(params=["modern", "legacy"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    async with opened(tmp_path, request.param) as found:
        yield found


def tools_of(got: Any) -> list[str]:
    return [tool["name"] for tool in got["contents"].get("tools", [])]


async def test_they_stand_inside_their_server_under_mapped_names(world: World) -> None:
    assert [group["name"] for group in await world.listed()] == ["hub"]
    hub = await world.got("hub")
    assert tools_of(hub) == ["hub__who"]
    issues, pulls = hub["contents"]["groups"]
    assert issues == {
        "name": "from-hub-issues",
        "title": "Issues",
        "description": "What is to be done",
    }
    assert pulls["name"].startswith("from-hub-pulls-")
    inner = await world.got("from-hub-issues")
    assert tools_of(inner) == ["hub__open", "hub__close"]
    assert inner["instructions"] == "Look before you open one."
    (labels,) = inner["contents"]["groups"]
    assert labels["name"] == "from-hub-labels"
    deepest = await world.got("from-hub-labels")
    assert tools_of(deepest) == ["hub__label"]
    assert deepest["contents"].keys() == {"tools"}
    assert tools_of(await world.got(pulls["name"])) == ["hub__merge", "hub__review"]
    called = await world.ask("tools/call", {"name": "hub__label", "arguments": {}})
    assert "Unknown tool: label" in str(called)  # it came there under its own name


async def test_what_may_not_be_seen_is_in_none(world: World) -> None:
    hub = await world.got("hub", who="bob")
    assert tools_of(hub) == ["hub__who"]
    (issues,) = hub["contents"]["groups"]
    inner = await world.got(issues["name"], who="bob")
    assert inner["contents"].keys() == {"groups"}
    assert tools_of(await world.got("from-hub-labels", who="bob")) == ["hub__label"]
    pulls = (await world.got("hub"))["contents"]["groups"][1]["name"]
    assert (await world.ask("groups/get", {"name": pulls}, who="bob"))["error"]["code"] == -32002


async def test_a_client_hears_of_other_groups(world: World) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer token-of-ann"}) as http:
        client = LegacyClient(world.url, http, "2025-11-25")
        await client.initialize(GROUPS_DECLARED)
        async with http.get(client.url, headers=client.headers) as stream:
            world.script.groups = {
                **GROUPS,
                "issues": {**GROUPS["issues"], "tools": ["open", "close", "who"]},
            }
            legacy = world.upstream.eras == "legacy"
            kind = "tools" if legacy else "groups"
            await world.upstream.announce(f"notifications/{kind}/list_changed")
            async with asyncio.timeout(20):
                async for line in stream.content:
                    if b"notifications/groups/list_changed" in line:
                        break
                    assert b"notifications/tools/list_changed" not in line
    assert tools_of(await world.got("from-hub-issues")) == ["hub__open", "hub__close", "hub__who"]
    assert "tools" not in (await world.got("hub"))["contents"]


async def test_packs_are_groups_of_those_who_have_them(world: World) -> None:
    accounts = world.runtime.accounts
    assert accounts is not None
    await accounts.users.create("eve")
    tools = ("hub__open", "hub__no-such-tool")
    await accounts.packs.create(Pack("work", None, "Work", "For the day.", tools=tools))
    await accounts.packs.create(Pack("rest", "eve", "Rest", servers=("gone",)))
    await accounts.packs.create(Pack("other", None, "Other", tools=("hub__close",)))
    await accounts.packs.install("eve", [(PACK, "work"), (PACK, "rest")])
    hub, work = await world.listed(who="eve")
    assert hub["name"] == "hub"
    about = "For the day. Tools of hub."
    assert work == {"name": "pack-work", "title": "Work", "description": about}
    assert tools_of(await world.got("pack-work", who="eve")) == ["hub__open"]
    for who, name in (("ann", "pack-work"), ("eve", "pack-other"), ("eve", "pack-rest")):
        refused = await world.ask("groups/get", {"name": name}, who=who)
        assert refused["error"]["code"] == -32002
    await accounts.packs.replace(Pack("work", None, "Labour", tools=tools), user=None)
    await until(lambda: "Labour" in {pack.title for pack in accounts.scopes.packs_of("eve")})
    assert [group["title"] for group in await world.listed(who="eve")] == ["hub", "Labour"]
    await accounts.packs.set_active("eve", PACK, "work", active=False)
    await until(lambda: len(accounts.scopes.packs_of("eve")) == 1)
    assert await world.listed(who="eve") == []


async def test_at_the_upstreams_own_endpoint_nothing_is_renamed(tmp_path: Path) -> None:
    async with opened(tmp_path, "modern") as world:
        names = [group["name"] for group in await world.listed(at="/hub")]
        assert names == ["issues", "Pulls!"]  # its own page
        listed = (await world.ask("tools/list", at="/hub"))["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["who"]


async def test_where_groups_are_not_served_nobody_asks_for_them(tmp_path: Path) -> None:
    async with opened(tmp_path, "modern", groups=False) as world:
        listed = (await world.ask("tools/list"))["result"]["tools"]
        assert {f"hub__{name}" for name in TOOLS} <= {tool["name"] for tool in listed}
        asked = [message["method"] for _, message in world.upstream.requests]
        assert not [method for method in asked if method.startswith("groups/")]
