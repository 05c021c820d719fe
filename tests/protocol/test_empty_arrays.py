"""An empty array where an object belongs, as clients in PHP and some in C# write an empty one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from armory.testing.front import plain

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
NOTHING: list[Any] = []
INFO = {"name": "php", "version": "0"}


async def test_a_session_is_begun_and_asked_with_them(front: Front) -> None:
    client = await front.start_legacy()
    params: dict[str, Any] = {"protocolVersion": "2025-11-25", "clientInfo": INFO}
    for method, sent, member in (
        ("initialize", {**params, "capabilities": NOTHING}, "protocolVersion"),
        ("ping", NOTHING, ""),
        ("tools/list", NOTHING, "tools"),
        ("prompts/list", {"_meta": NOTHING}, "prompts"),
    ):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": sent}
        status, (message,) = await client.send(body)
        assert (status, member in {"", *message["result"]}) == (200, True), method
    body = {"jsonrpc": "2.0", "method": "notifications/initialized", "params": NOTHING}
    assert (await client.send(body))[0] == 202


@pytest.mark.parametrize("path", ["/mcp", "/mcp/old"])
async def test_a_tool_is_called_with_an_object(front: Front, path: str) -> None:
    client = await front.start_legacy(path=path)
    name = "old__now" if path == "/mcp" else "now"
    calls: list[dict[str, Any]] = [{"name": name, "arguments": NOTHING, "_meta": NOTHING}]
    if path == "/mcp":
        calls.append({"name": "call_tool", "arguments": {"name": name, "arguments": NOTHING}})
    for call in calls:
        assert "result" in await client.request("tools/call", call)
        assert plain(front.pool.calls[-1][2].params).get("arguments", {}) == {}


async def test_one_that_holds_something_is_refused(front: Front) -> None:
    client = await front.start_legacy()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [1]}
    _, (message,) = await client.send(body)
    assert message["error"]["message"] == "params is [1]; expected an object"
    call = {"name": "old__now", "arguments": [1]}
    error = (await client.request("tools/call", call))["error"]
    assert error["message"] == "params.arguments is [1]; expected an object"
