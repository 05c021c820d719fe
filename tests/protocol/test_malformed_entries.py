"""Entries that are not as the specification has them, in lists that several upstreams share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
SCHEMA: dict[str, Any] = {"type": "object"}
TOOLS: list[dict[str, Any]] = [
    {"name": "bare"},
    {"name": "null", "inputSchema": None},
    {"name": "untyped", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "other-type", "inputSchema": {"type": ["object", "null"]}},
    {
        "name": "nulls",
        "title": None,
        "description": None,
        "inputSchema": {"$schema": None, "type": "object", "properties": None, "required": None},
        "outputSchema": None,
        "annotations": None,
        "icons": None,
        "_meta": None,
    },
    {"name": "no-schemas", "inputSchema": {**SCHEMA, "properties": {"a": None, "b": True}}},
    {"name": "required", "inputSchema": {**SCHEMA, "required": True}},
    {"name": "hints", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": "yes"}},
    {"name": "icons", "inputSchema": SCHEMA, "icons": [{"mimeType": "image/png"}, {"src": "a:b"}]},
    {"name": "output", "inputSchema": SCHEMA, "outputSchema": {**SCHEMA, "required": None}},
    {"name": "lost", "inputSchema": SCHEMA, "outputSchema": {**SCHEMA, "not": {"$ref": "#/x"}}},
    {"name": "any", "inputSchema": SCHEMA, "outputSchema": {**SCHEMA, "not": {"type": "any"}}},
    {"name": "task", "inputSchema": SCHEMA, "execution": {"taskSupport": "maybe"}},
    {"name": "numbers", "title": 1, "description": 2, "inputSchema": SCHEMA, "_meta": 3},
]
PROMPTS: list[dict[str, Any]] = [
    {"name": "null", "arguments": None, "description": None},
    {"name": "odd", "arguments": [{"required": True}, {"name": "a", "required": "no"}]},
]
RESOURCES: list[dict[str, Any]] = [
    {"uri": "a:unnamed"},
    {"uri": "a:null", "name": None, "mimeType": None, "size": None, "annotations": None},
    {"uri": "a:odd", "name": "odd", "size": "1 KB", "annotations": {"priority": 5}},
    {"uri": "a:when", "name": "when", "annotations": {"lastModified": "yesterday"}},
    {"uri": "a:whom", "name": "whom", "annotations": {"audience": ["user", "nobody"]}},
]
TEMPLATES: list[dict[str, Any]] = [{"uriTemplate": "a:{b}"}, {"uriTemplate": "c:{d}", "name": 1}]


def list_oddly(front: Front) -> None:
    upstream = front.pool.upstreams["old"]
    upstream.lists = replace(
        upstream.lists, tools=TOOLS, prompts=PROMPTS, resources=RESOURCES, templates=TEMPLATES
    )
    front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_they_cost_no_client_its_lists(front: Front, mode: str) -> None:
    list_oddly(front)
    async with Client(front.url + "/mcp", mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools[:3] == ["new__now", "new__echo", "new__fail"]
        assert tools[3:] == [f"old__{tool['name']}" for tool in TOOLS]
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert prompts == ["new__greet", "old__null", "old__odd"]
        resources = (await client.list_resources()).resources
        assert [str(r.uri) for r in resources[1:]] == [f"old+{r['uri']}" for r in RESOURCES]
        templates = (await client.list_resource_templates()).resource_templates
        assert [t.uri_template for t in templates[1:]] == ["old+a:{b}", "old+c:{d}"]


async def test_at_the_upstreams_own_endpoint_they_are_as_they_came(front: Front) -> None:
    list_oddly(front)
    _, message = await front.modern("tools/list", path="/mcp/old")
    assert message["result"]["tools"] == TOOLS
    _, message = await front.modern("resources/list", path="/mcp/old")
    assert message["result"]["resources"] == RESOURCES
