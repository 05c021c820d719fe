"""What the gateway does so that clients need not know about an upstream's era."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from armory.protocol.capabilities import TASKS_EXTENSION
from armory.protocol.link import Call, Owner, Reply
from armory.testing.front import plain, refused, result, tool
from armory.testing.waiting import until

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio


def replace_tools(front: Front, server: str, *tools: dict[str, Any]) -> None:
    upstream = front.pool.upstreams[server]
    upstream.lists = replace(upstream.lists, tools=list(tools))
    front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))


class Tasks:
    """A 2025-11-25 upstream whose tool runs only as a task."""

    def __init__(self, polls: int) -> None:
        self.polls = polls
        self.methods: list[str] = []
        self.waiting = asyncio.Event()

    async def __call__(self, call: Call, owner: Owner) -> Reply:
        del owner
        self.methods.append(call.method)
        params = plain(call.params)
        task = {"taskId": "t", "status": "working", "pollInterval": 1}
        match call.method:
            case "tools/call":
                assert params["task"]["ttl"] > 0
                return result({"task": task})
            case "tasks/get":
                self.waiting.set()
                self.polls -= 1
                return result({**task, "status": "working" if self.polls else "completed"})
            case "tasks/result":
                return result({"content": [{"type": "text", "text": "done"}]})
            case _:
                return result({**task, "status": "cancelled"})


async def test_a_tool_that_must_be_a_task_is_called_as_one(front: Front) -> None:
    upstream = Tasks(polls=2)
    front.pool.upstreams["old"].answer = upstream
    replace_tools(front, "old", tool("long", "", execution={"taskSupport": "required"}))
    _, message = await front.modern("tools/call", {"name": "old__long", "arguments": {}})
    assert message["result"]["content"][0]["text"] == "done"
    assert upstream.methods == ["tools/call", "tasks/get", "tasks/get", "tasks/result"]


async def test_a_modern_call_asks_for_no_task_of_the_handshake_era(front: Front) -> None:
    asked: list[dict[str, Any]] = []

    async def noting(call: Call, owner: Owner) -> Reply:
        del owner
        asked.append(plain(call.params))
        return result({"content": []})

    front.pool.upstreams["old"].answer = front.pool.upstreams["new"].answer = noting
    for server in ("old", "new"):
        params = {"name": f"{server}__now", "arguments": {}, "task": {"ttl": 60_000}}
        await front.modern("tools/call", params)
    client = await front.start_legacy()
    params = {"name": "old__now", "arguments": {}, "task": {"ttl": 60_000}}
    await client.request("tools/call", params)
    assert ["task" in params for params in asked] == [False, True, True]


async def test_nobody_is_told_that_a_call_must_be_a_task_where_it_need_not(front: Front) -> None:
    """There are SDKs that send no plain call of such a tool, whatever the server can do."""
    long = tool("long", "", execution={"taskSupport": "required", "xVendor": 1})
    replace_tools(front, "old", long)
    legacy = await front.start_legacy()
    listed = {t["name"]: t for t in (await legacy.request("tools/list"))["result"]["tools"]}
    shown = listed["old__long"]["execution"]
    assert shown == {"taskSupport": "optional", "xVendor": 1}
    own = await front.start_legacy(path="/mcp/old")
    assert (await own.request("tools/list"))["result"]["tools"] == [long]


async def test_cancelling_the_call_cancels_the_task(front: Front) -> None:
    upstream = Tasks(polls=100_000)
    front.pool.upstreams["old"].answer = upstream
    replace_tools(front, "old", tool("long", "", execution={"taskSupport": "required"}))
    params = {"name": "old__long", "arguments": {}}
    call = asyncio.ensure_future(front.modern("tools/call", params))
    await asyncio.wait_for(upstream.waiting.wait(), 30)
    call.cancel()
    await until(lambda: upstream.methods[-1] == "tasks/cancel")


async def test_task_ids_are_mapped(front: Front) -> None:
    async def relayed(call: Call, owner: Owner) -> Reply:
        del owner
        task = {"resultType": "task", "taskId": "7", "status": "working"}
        if call.method == "tools/call":
            return result(task, "modern")
        assert plain(call.params)["taskId"] == "7"
        assert call.name_header == "7"
        return result({**task, "resultType": "complete"}, "modern")

    front.pool.upstreams["new"].answer = relayed
    params, takes = {"name": "new__now", "arguments": {}}, {"extensions": {TASKS_EXTENSION: {}}}
    _, message = await front.modern("tools/call", params, capabilities=takes)
    assert message["result"]["taskId"] == "new:7"
    named: dict[str, Any] = {"headers": {"Mcp-Name": "new:7"}, "capabilities": takes}
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        _, message = await front.modern(method, {"taskId": "new:7"}, **named)
        assert message["result"]["taskId"] == "new:7"
    named["headers"] = {"Mcp-Name": "none:7"}
    status, message = await front.modern("tasks/get", {"taskId": "none:7"}, **named)
    assert (status, message["error"]["code"]) == (400, -32602)


HEADED = {
    "type": "object",
    "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}},
}


async def test_parameter_headers_are_made_anew_and_stripped_from_query_endpoints(
    front: Front,
) -> None:
    replace_tools(front, "new", {"name": "now", "inputSchema": HEADED})
    _, message = await front.modern("tools/list")
    shown = message["result"]["tools"][0]["inputSchema"]
    assert "x-mcp-header" not in shown["properties"]["zone"]
    search = {"name": "search_tools", "arguments": {"query": "now"}}
    _, message = await front.modern("tools/call", search)
    found = message["result"]["structuredContent"]["tools"]
    assert [one["inputSchema"] for one in found if one["name"] == "new__now"] == [shown]
    params = {"name": "new__now", "arguments": {"zone": "Zürich"}}
    status, _ = await front.modern("tools/call", params)
    assert status == 200
    assert front.pool.calls[-1][2].param_headers == {"Mcp-Param-Zone": "=?base64?WsO8cmljaA==?="}


async def test_parameter_headers_are_checked_where_they_are_shown(front: Front) -> None:
    replace_tools(front, "new", {"name": "now", "inputSchema": HEADED})
    for path, name in (("/mcp/new", "now"), ("/mcp?mode=raw", "new__now")):
        _, message = await front.modern("tools/list", path=path)
        shown = message["result"]["tools"][0]["inputSchema"]
        assert shown["properties"]["zone"]["x-mcp-header"] == "Zone"
        params = {"name": name, "arguments": {"zone": "UTC"}}
        for headers, expected in (
            ({"Mcp-Param-Zone": "UTC"}, 200),
            ({"Mcp-Param-Zone": "=?base64?VVRD?="}, 200),
            ({"Mcp-Param-Zone": "CET"}, 400),
            ({}, 400),
        ):
            status, message = await front.modern("tools/call", params, path=path, headers=headers)
            assert status == expected
            if status == 400:
                assert message["error"]["code"] == -32020


async def test_refused_headers_have_the_list_fetched_anew(front: Front) -> None:
    replace_tools(front, "new", {"name": "now", "inputSchema": {"type": "object"}})

    async def picky(call: Call, owner: Owner) -> Reply:
        del owner
        if "Mcp-Param-Zone" not in call.param_headers:
            return refused(-32020, "header missing", era="modern")
        return result({"resultType": "complete", "content": []}, "modern")

    async def relist(server: str) -> None:
        replace_tools(front, server, {"name": "now", "inputSchema": HEADED})

    front.pool.upstreams["new"].answer = picky
    params = {"name": "new__now", "arguments": {"zone": "UTC"}}
    status, message = await front.modern("tools/call", params)
    assert (status, message["error"]["code"]) == (400, -32020)
    assert message["error"]["message"] == "header missing"
    assert len(front.pool.calls) == 1
    front.relisting.how = relist
    _, message = await front.modern("tools/call", params)
    assert "isError" not in message["result"]


async def test_a_refused_answer_to_a_question_is_the_callers_own(front: Front) -> None:
    """Nothing is listed anew and nothing is sent twice for what the caller did."""
    replace_tools(front, "new", {"name": "now", "inputSchema": HEADED})
    listed: list[str] = []

    async def strict(call: Call, owner: Owner) -> Reply:
        del owner
        assert "inputResponses" in call.params
        return refused(-32020, "inputResponses cannot be read", era="modern")

    async def relist(server: str) -> None:
        listed.append(server)

    front.pool.upstreams["new"].answer = strict
    front.relisting.how = relist
    params = {"name": "new__now", "arguments": {"zone": "UTC"}, "inputResponses": [1]}
    _, message = await front.modern("tools/call", params)
    assert message["error"]["message"] == "inputResponses cannot be read"
    assert (listed, len(front.pool.calls)) == ([], 1)


async def test_a_server_without_resources_has_not_the_one_that_is_read(front: Front) -> None:
    """That it knows no such method is no word about the gateway's."""

    async def knows_none(call: Call, owner: Owner) -> Reply:
        del owner
        return refused(-32601, f"Method not found: {call.method}")

    for server in ("old", "new"):
        front.pool.upstreams[server].answer = knows_none
        params = {"uri": f"{server}+file:///readme"}
        for capabilities in ({}, {"elicitation": {}}):
            asked: dict[str, Any] = {"params": params, "capabilities": capabilities}
            status, message = await front.modern("resources/read", **asked)
            assert (status, message["error"]["code"]) == (400, -32602)
            assert message["error"]["data"] == params
        client = await front.start_legacy()
        assert (await client.request("resources/read", params))["error"]["code"] == -32002
        params = {"uri": "file:///readme"}
        _, message = await front.modern("resources/read", params, path=f"/mcp/{server}")
        assert message["error"]["code"] == -32601
