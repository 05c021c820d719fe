"""Groups (draft `io.modelcontextprotocol/groups`), in both eras, and nothing of them by default."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jsonschema import Draft202012Validator
from mcp.types import Tool

from armory.protocol.capabilities import GROUPS_EXTENSION
from armory.testing.clients.raw import LegacyClient
from armory.testing.upstreams.exchange import Json, Wire, definition
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from tests.protocol.gateways import GatewayClient, running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
DECLARED = {"extensions": {GROUPS_EXTENSION: {}}}
GROUP = {
    "type": "object",
    "required": ["name", "description"],
    "properties": {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 64,
            "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$",
        },
        "title": {"type": "string"},
        "description": {"type": "string", "minLength": 1},
        "_meta": {"type": "object"},
    },
    "additionalProperties": False,
}
LISTED = {
    "type": "object",
    "required": ["groups"],
    "properties": {
        "groups": {"type": "array", "items": GROUP},
        "nextCursor": {"type": "string"},
        "_meta": {"type": "object"},
    },
}
GOT = {
    "type": "object",
    "anyOf": [{"required": ["instructions"]}, {"required": ["contents"]}],
    "properties": {
        "instructions": {"type": "string", "minLength": 1},
        "contents": {
            "type": "object",
            "properties": {"tools": {"type": "array", "minItems": 1}},
            "additionalProperties": False,
        },
        "_meta": {"type": "object"},
    },
}


class Grouping(Script):
    """A server with groups of its own."""

    async def _result(self, message: Json, wire: Wire) -> Json:
        if message["method"] == "groups/list":
            return {"groups": [{"name": "its-own", "description": "The upstream's own"}]}
        return await super()._result(message, wire)


class Rig(GatewayClient):
    """A gateway, asked by one of two people whose client takes groups, if not said otherwise."""

    async def ask(self, method: str, params: Any = None, **more: Any) -> Any:
        more.setdefault("capabilities", DECLARED)
        return await super().ask(method, params, **more)

    async def names(self, params: Any = None, **more: Any) -> list[str]:
        return [tool["name"] for tool in (await self.result("tools/list", params, **more))["tools"]]

    async def groups(self, **more: Any) -> list[str]:
        listed = await self.result("groups/list", **more)
        Draft202012Validator(LISTED).validate(listed)
        return [group["name"] for group in listed["groups"]]

    async def scoped(self, name: str, **more: Any) -> list[str]:
        got = await self.result("groups/get", {"name": name}, **more)
        Draft202012Validator(GOT).validate(got)
        tools = got["contents"]["tools"]
        for tool in tools:
            Tool.model_validate(tool)
        return [tool["name"] for tool in tools]


Opened = Callable[[list[str]], Coroutine[Any, Any, Rig]]


@pytest.fixture
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opened]:
    """Opens a gateway with some drafts served."""
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    async with AsyncExitStack() as stack:

        async def open_(experimental: list[str]) -> Rig:
            return await stack.enter_async_context(_opened(tmp_path, experimental))

        yield open_


@asynccontextmanager
async def _opened(folder: Path, experimental: list[str]) -> AsyncGenerator[Rig]:
    async with AsyncExitStack() as stack:
        upstreams: dict[str, Any] = {}
        for key in ("git-hub", "mail"):
            shown = [definition(name) for name in ("echo", "who", "fail")]
            script = Grouping(name=key, tools=shown)
            script.capabilities = {**script.capabilities, **DECLARED}
            server = await stack.enter_async_context(HttpUpstream(script, eras="modern"))
            upstreams[key] = {"url": server.url}
        policies = [
            {"who": ["ann"], "allow": ["*"]},
            {"who": ["bob"], "allow": ["mail__echo", "mail__who"]},
        ]
        tokens = {who: {"token": f"token-of-{who}", "user": who} for who in ("ann", "bob")}
        config = {
            "server": {"experimental": experimental},
            "upstreams": upstreams,
            "sets": {
                "sums": {"tools": ["*__who"], "query": "who asks"},
                "hub": {"servers": ["git-hub"]},
            },
            "security": {"tokens": tokens, "policies": policies},
            "tool_rag": {"embedding_model": "embedded", "pin": ["mail__echo"]},
            "observability": {"log_level": "error"},
        }
        found = await stack.enter_async_context(running(folder, config))
        yield Rig(found.url, found.http)


async def test_every_tool_is_listed_or_in_groups_never_both(opened: Opened) -> None:
    rig = await opened(["groups", "filter"])
    found = (await rig.result("server/discover"))["capabilities"]
    assert found["extensions"][GROUPS_EXTENSION] == {"listChanged": True}
    groups = await rig.groups()
    assert groups == ["git-hub", "mail", "set-hub", "set-sums"]
    everything = await rig.names(capabilities={})
    listed = await rig.names()
    assert listed == ["mail__echo", "search_tools", "call_tool"]
    hub, mail, also_hub, sums = [await rig.scoped(name) for name in groups]
    assert "git-hub__echo" in hub
    assert hub == also_hub
    assert sums == ["git-hub__who", "mail__who"]
    assert "mail__echo" not in mail
    own = {name for name in everything if "__" in name}
    assert {*hub, *mail, "mail__echo"} == own
    assert await rig.names({"filter": {"namePatterns": ["*__echo"]}}) == ["mail__echo"]
    called = await rig.result("tools/call", {"name": "mail__who", "arguments": {}})
    assert not called.get("isError")


async def test_what_stands_in_a_group_can_be_described(opened: Opened) -> None:
    rig = await opened(["groups", "manifest"])
    got = (await rig.result("groups/get", {"name": "git-hub"}))["contents"]["tools"]
    names = [tool["name"] for tool in got]
    described = await rig.result("tools/describe", {"names": [*names, "mail__echo"]})
    assert described["tools"][:-1] == got
    assert described["tools"][-1] == (await rig.result("tools/list"))["tools"][0]
    entries = (await rig.result("tools/manifest"))["entries"]
    assert [entry["name"] for entry in entries] == ["mail__echo", "search_tools", "call_tool"]
    for asked, who, at in (
        (["git-hub__echo"], "bob", "/mcp"),
        (["git-hub__fail"], "ann", "/mcp/set/sums"),
        (["git-hub__none"], "ann", "/mcp"),
    ):
        error = (await rig.ask("tools/describe", {"names": asked}, who=who, at=at))["error"]
        assert (error["code"], error["data"]) == (-32602, {"unknownNames": asked})


async def test_a_set_has_the_groups_of_its_servers(opened: Opened) -> None:
    rig = await opened(["groups"])
    groups = await rig.groups(at="/mcp/set/sums")
    assert [await rig.scoped(name, at="/mcp/set/sums") for name in groups] == [
        ["git-hub__who"],
        ["mail__who"],
    ]
    assert await rig.names(at="/mcp/set/sums") == ["search_tools", "call_tool"]
    assert "mail__who" in await rig.names(at="/mcp/set/sums", capabilities={})
    own = await rig.result("groups/list", at="/mcp/mail")
    assert [group["name"] for group in own["groups"]] == ["its-own"]


async def test_a_group_of_which_nothing_may_be_seen_does_not_exist(opened: Opened) -> None:
    rig = await opened(["groups"])
    assert await rig.groups(who="bob") == ["mail", "set-sums"]
    assert await rig.scoped("mail", who="bob") == ["mail__who"]
    assert await rig.scoped("set-sums", who="bob") == ["mail__who"]
    listed = await rig.result("groups/list", who="bob")
    assert "git-hub" not in str(listed)
    assert "greet" not in str(listed)
    for name in ("git-hub", "set-hub", "no"):
        answer = await rig.ask("groups/get", {"name": name}, who="bob")
        assert answer["error"]["code"] == -32002
        assert answer["error"]["message"] == f"Group not found: {name}"
    assert (await rig.ask("groups/get", {}))["error"]["code"] == -32602
    assert (await rig.ask("groups/list", {"cursor": "x"}))["error"]["code"] == -32602


async def test_who_does_not_declare_them_has_everything_flat(opened: Opened) -> None:
    rig = await opened(["groups"])
    assert "git-hub__who" in await rig.names(capabilities={})
    for method in ("groups/list", "groups/get"):
        refused = await rig.ask(method, {"name": "mail"}, capabilities={})
        assert refused["error"]["code"] == -32601


async def test_a_legacy_client_has_them_too(opened: Opened) -> None:
    rig = await opened(["groups"])
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer token-of-ann"}) as http:
        client = LegacyClient(f"{rig.url}/mcp", http, "2025-11-25")
        await client.initialize(DECLARED)
        assert client.hello["capabilities"]["extensions"][GROUPS_EXTENSION] == {"listChanged": True}
        listed = (await client.request("groups/list"))["result"]
        Draft202012Validator(LISTED).validate(listed)
        assert listed.keys() == {"groups"}
        got = (await client.request("groups/get", {"name": "mail"}))["result"]
        Draft202012Validator(GOT).validate(got)
        tools = (await client.request("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["mail__echo", "search_tools", "call_tool"]


async def test_by_default_there_is_nothing_of_them(opened: Opened) -> None:
    rig = await opened([])
    found = (await rig.result("server/discover"))["capabilities"]
    assert GROUPS_EXTENSION not in found["extensions"]
    assert "git-hub__who" in await rig.names()
    for method in ("groups/list", "groups/get"):
        assert (await rig.ask(method, {"name": "mail"}))["error"]["code"] == -32601
