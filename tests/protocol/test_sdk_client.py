"""The SDK's client against the gateway, in every mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mcp import Client, MCPError

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
MODES = ["2026-07-28", "legacy", "auto"]


@pytest.mark.parametrize("mode", MODES)
async def test_lists_calls_prompts_resources(front: Front, mode: str) -> None:
    async with Client(front.url + "/mcp", mode=mode) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools][:3] == ["new__now", "new__echo", "new__fail"]
        called = await client.call_tool("old__fail", {})
        assert called.is_error
        prompts = await client.list_prompts()
        assert [prompt.name for prompt in prompts.prompts] == ["new__greet", "old__greet"]
        assert (await client.get_prompt("old__greet", {"who": "you"})).messages
        resources = await client.list_resources()
        assert str(resources.resources[0].uri) == "new+file:///readme"
        templates = await client.list_resource_templates()
        assert templates.resource_templates[1].uri_template == "old+file:///{path}"
        for server in ("new", "old"):
            read = await client.read_resource(f"{server}+file:///readme")
            assert str(read.contents[0].uri) == f"{server}+file:///readme"
            with pytest.raises(MCPError) as missing:
                await client.read_resource(f"{server}+file:///nope")
            legacy = client.protocol_version != "2026-07-28"
            assert missing.value.error.code == (-32002 if legacy else -32602)


@pytest.mark.parametrize("mode", MODES)
async def test_query_in_meta(front: Front, mode: str) -> None:
    async with Client(front.url + "/mcp", mode=mode) as client:
        everything = await client.list_tools()
        assert len(everything.tools) == 6
        asked = await client.list_tools(meta={"dev.armory/query": "current time"})
        assert "new__now" in [tool.name for tool in asked.tools]
        assert "new__fail" not in [tool.name for tool in asked.tools]
        again = await client.list_tools()
        assert len(again.tools) == 6


@pytest.mark.filterwarnings(
    "ignore::mcp.shared.exceptions.MCPDeprecationWarning"
)  # the method is what is tested
async def test_legacy_ping_and_logging(front: Front) -> None:
    async with Client(front.url + "/mcp", mode="legacy") as client:
        await client.session.send_ping()
        await client.session.set_logging_level("warning")  # pyright: ignore[reportDeprecated]
    assert [level for _, level in front.pool.levels] == ["warning"]
