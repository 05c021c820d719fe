"""Lists and calls in both eras against upstreams of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from armory.testing.clients.raw import modern_body, modern_headers

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
ALL = ["new__now", "new__echo", "new__fail", "old__now", "old__echo", "old__fail"]


def names(result: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in result["tools"]]


async def test_modern_discover(front: Front) -> None:
    status, message = await front.modern("server/discover")
    result = message["result"]
    assert status == 200
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["resultType"] == "complete"
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert "dev.armory/tool-rag" in result["capabilities"]["extensions"]
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "armory"
    assert "new" in result["instructions"]


async def test_modern_list_without_query_is_full_and_never_cached(front: Front) -> None:
    _, message = await front.modern("tools/list")
    result = message["result"]
    assert names(result) == ALL
    assert result["ttlMs"] == 0
    assert result["tools"][0]["xVendor"] == {"kept": [1, 2]}


async def test_modern_list_with_query_is_filtered(front: Front) -> None:
    _, message = await front.modern("tools/list", meta={"dev.armory/query": "current time"})
    result = message["result"]
    assert names(result) == ["new__now", "old__now", "search_tools", "call_tool"]
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    selection = result["_meta"]["dev.armory/selection"]
    assert selection["returned"] == 2
    assert selection["visible"] == 6
    assert result["tools"][0]["_meta"]["anthropic/alwaysLoad"] is True


@pytest.mark.parametrize("server", ["new", "old"])
async def test_modern_call(front: Front, server: str) -> None:
    status, message = await front.modern(
        "tools/call", {"name": f"{server}__now", "arguments": {"text": "x"}}
    )
    result = message["result"]
    assert status == 200
    assert result["resultType"] == "complete"
    assert result["unknownField"] == {"x": 1}
    assert result["content"][0]["text"] == '{"name":"now","arguments":{"text":"x"}}'
    assert result["content"][1]["uri"] == f"{server}+file:///readme"
    assert result["content"][2] == {"type": "unheard-of", "data": [None, True]}


@pytest.mark.parametrize("server", ["new", "old"])
async def test_legacy_call(front: Front, server: str) -> None:
    client = await front.start_legacy()
    message = await client.request(
        "tools/call", {"name": f"{server}__now", "arguments": {"text": "x"}}
    )
    result = message["result"]
    assert "resultType" not in result
    assert result["unknownField"] == {"x": 1}
    assert result["content"][1]["uri"] == f"{server}+file:///readme"


async def test_legacy_handshake_and_list(front: Front) -> None:
    client = await front.start_legacy()
    assert client.hello["protocolVersion"] == "2025-11-25"
    assert client.hello["serverInfo"]["name"] == "armory"
    assert "dev.armory/tool-rag" in client.hello["capabilities"]["experimental"]
    listed = (await client.request("tools/list"))["result"]
    assert names(listed) == ALL
    assert "ttlMs" not in listed
    assert "outputSchema" not in listed["tools"][1]
    assert (await client.request("ping"))["result"] == {}


async def test_transparent_endpoint_uses_original_names(front: Front) -> None:
    _, message = await front.modern("tools/list", path="/mcp/new")
    result = message["result"]
    assert names(result) == ["now", "echo", "fail"]
    assert (result["ttlMs"], result["cacheScope"]) == (5000, "public")
    _, message = await front.modern("tools/call", {"name": "now", "arguments": {}}, path="/mcp/new")
    assert message["result"]["content"][1]["uri"] == "file:///readme"


async def test_set_endpoint(front: Front) -> None:
    _, message = await front.modern("tools/list", path="/mcp/set/clocks")
    assert names(message["result"]) == ["new__now", "old__now"]
    status, message = await front.modern(
        "tools/call", {"name": "new__echo", "arguments": {}}, path="/mcp/set/clocks"
    )
    assert (status, message["error"]["code"]) == (400, -32602)


async def test_unknown_tool(front: Front) -> None:
    status, message = await front.modern("tools/call", {"name": "new__nope", "arguments": {}})
    assert (status, message["error"]["code"]) == (400, -32602)


async def test_search_and_call_meta_tools(front: Front) -> None:
    _, message = await front.modern(
        "tools/call", {"name": "search_tools", "arguments": {"query": "current time", "top_k": 1}}
    )
    found = message["result"]["structuredContent"]
    assert [tool["name"] for tool in found["tools"]] == ["new__now"]
    assert (found["returned"], found["visible"]) == (1, 6)
    _, through = await front.modern(
        "tools/call",
        {"name": "call_tool", "arguments": {"name": "new__now", "arguments": {"text": "x"}}},
    )
    _, direct = await front.modern("tools/call", {"name": "new__now", "arguments": {"text": "x"}})
    assert through["result"] == direct["result"]


async def test_who_takes_events_alone_is_answered_with_one(front: Front) -> None:
    """Whatever is asked, the handshake included; an error has its status all the same."""

    async def asked(body: Any, headers: dict[str, str]) -> tuple[int, str, str]:
        headers = {**headers, "Accept": "text/event-stream"}
        async with front.http.post(f"{front.url}/mcp", json=body, headers=headers) as response:
            session = response.headers.get("Mcp-Session-Id", "")
            said = (await response.text()).strip()
            kind, event = response.content_type, said.startswith("event: message\ndata: ")
            assert (kind, event) in (("text/event-stream", True), ("application/json", False))
            assert msgspec.json.decode(said.removeprefix("event: message\ndata: "))
            return response.status, kind, session

    who = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "a"}}
    shaken = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
    status, kind, session = await asked(shaken, {})
    assert (status, kind, bool(session)) == (200, "text/event-stream", True)
    batch = [{"jsonrpc": "2.0", "id": id, "method": "tools/list"} for id in (1, 2)]
    assert (await asked(batch, {"Mcp-Session-Id": session}))[:2] == (200, "text/event-stream")
    for method, answered in (
        ("tools/list", (200, "text/event-stream")),
        ("nothing/known", (404, "application/json")),
    ):
        body = modern_body(1, method)
        assert (await asked(body, modern_headers(body)))[:2] == answered
