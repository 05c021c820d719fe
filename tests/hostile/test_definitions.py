"""A definition that cannot be handled costs itself, and what is taken over can be handled."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import aiohttp
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.gateway.calls.task_tools import needs_task
from armory.gateway.views.definitions import Form, listed_bytes, tool_bytes
from armory.protocol.headers import declared_headers
from armory.protocol.link import Call, Reply
from armory.retrieval.indexing.document import document_of
from armory.retrieval.options import Strategy
from armory.retrieval.rankers.boosts import boost_of
from armory.retrieval.ranking.tokens import definition_tokens
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.processes import GatewayProcess
from armory.upstreams.session.lists.entries import (
    MAX_ANNOTATED_BYTES,
    MAX_BYTES,
    MAX_LEVELS,
    MAX_NAMED,
)
from armory.upstreams.session.lists.server_lists import fetch_lists

pytestmark = pytest.mark.anyio
ROOT = "root-" + "r" * 40


def properties(levels: int, inner: str = "{}") -> str:
    return '{"properties":{"x":' * levels + inner + "}}" * levels


def tool(name: str, schema: str) -> str:
    return f'{{"name":"{name}","inputSchema":{schema}}}'


TOOLS = {
    "good": tool("good", '{"type":"object"}'),
    "deep": tool("deep", properties(250)),
    "deeper": tool("deeper", properties(5_000)),
    "arrays": tool("arrays", '{"x":' + "[" * 70 + "]" * 70 + "}"),
    "giant": tool("giant", '{"type":"object","maximum":' + "9" * 5_000 + "}"),
    "infinite": tool("infinite", '{"type":"object","maximum":1e999}'),
    "text": '"text"',
    "nameless": '{"inputSchema":{}}',
    "last": tool("last", properties(MAX_LEVELS // 2 - 1)),
}
LEFT = {
    "deep": "nested deeper than 64 levels",
    "deeper": "nested deeper than 64 levels",
    "arrays": "nested deeper than 64 levels",
    "giant": "cannot be read: Integer value out of range",
    "infinite": "cannot be read: Number out of range",
    "#6": "it is no object",
    "#7": "it has no usable 'name'",
}
SERVER = """
import json, sys
lists = json.load(open(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked["method"], asked.get("id")
    if id is None:
        continue
    elif method == "initialize":
        answer = json.dumps({"protocolVersion": "2025-06-18", "serverInfo": {"name": "x"},
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}}})
    elif method in lists:
        answer = lists[method]
    elif method == "tools/call":
        answer = '{"content":[],"structuredContent":' + '{"x":' * 1000000 + '1' + '}' * 1000001
    else:
        answer = "{}"
    if method == "server/discover":
        print('{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"no"}}' % id, flush=True)
    else:
        print('{"jsonrpc":"2.0","id":%d,"result":%s}' % (id, answer), flush=True)
"""


class Answers:
    """A link, as far as listing needs one."""

    server = "up"
    instructions = ""
    mirrors_params = True
    left_out: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})

    def __init__(self, page: bytes, **face: Any) -> None:
        self.page = page
        self.server_info: Any = face.get("info", {"name": "n"})
        self.capabilities: Any = face.get("capabilities", {"tools": {}})

    async def request(self, call: Call) -> Reply:
        return Reply(result=Raw(self.page))


async def fetched(link: Answers, before: ServerLists | None = None) -> ServerLists:
    return await fetch_lists(link, before=before)  # pyright: ignore[reportArgumentType]


def walk(lists: ServerLists) -> None:
    """Everything that goes through definitions later."""
    catalog, _ = build_catalog({"up": lists})
    assert build_catalog({"up": lists}, previous=catalog)[0] is catalog
    forms = [
        Form(era, original=original, headers=headers, load=True)
        for era in ("legacy", "modern")
        for original in (False, True)
        for headers in (False, True)
    ]
    for record in catalog.tools.values():
        for form in forms:
            shown = msgspec.json.decode(tool_bytes(record, form))
            assert json.loads(json.dumps(shown)) == shown
        declared_headers(record.input_schema)
        needs_task(record, {})
        definition_tokens(record.definition)
        boost_of(record, 20, None)
        for strategy in get_args(Strategy):
            assert all(text.strip() for text in document_of(record, strategy).texts)
    for record in catalog.prompts.values():
        for form in forms:
            listed_bytes(record, "prompts", form)


KEYS = st.sampled_from(
    [
        "name", "title", "description", "inputSchema", "outputSchema", "properties", "type",
        "items", "_meta", "annotations", "execution", "taskSupport", "x-mcp-header", "examples",
        "ui", "resourceUri", "ui/resourceUri", "$defs", "allOf", "tags", "",
    ]
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.sampled_from(["object", "string", "ui://x", "required"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)  # fmt: skip
DEFINITIONS = st.dictionaries(KEYS, VALUES, max_size=8)


@given(st.lists(DEFINITIONS, max_size=4), DEFINITIONS)
@settings(max_examples=150, deadline=None)
def test_whatever_is_taken_over_can_be_handled(tools: list[Any], face: dict[str, Any]) -> None:
    named = [{**tool, "name": f"t{place}"} for place, tool in enumerate(tools)]
    page = json.dumps({"tools": [*tools, *named], "prompts": named}).encode()
    lists = asyncio.run(fetched(Answers(page, info=face)))
    assert len(lists.tools) + lists.dropped_count >= len(tools) + len(named)
    walk(lists)


async def test_the_deepest_that_is_taken_over_can_be_handled() -> None:
    for inner in (properties(MAX_LEVELS // 2 - 2, '{"type":"string"}'), "[" * 61 + "]" * 61):
        page = '{"tools":[{"name":"a","description":"d","inputSchema":{"x":' + inner + "}}]}"
        lists = await fetched(Answers(page.encode()))
        assert len(lists.tools) == 1
        walk(lists)


async def test_what_is_left_out_is_counted_and_told_in_part() -> None:
    deep = ",".join(tool(f"t{n}" * 100, properties(250)) for n in range(500))
    lists = await fetched(Answers(f'{{"tools":[{deep},{TOOLS["good"]}]}}'.encode()))
    assert [tool["name"] for tool in lists.tools] == ["good"]
    assert (lists.dropped_count, len(lists.dropped)) == (500, MAX_NAMED)
    assert all(len(entry.entry) <= 80 and len(entry.reason) <= 200 for entry in lists.dropped)


async def test_a_definition_may_be_so_large() -> None:
    def described(name: str, size: int, schema: str = '{"type":"object"}') -> str:
        return tool(name, schema)[:-1] + f',"description":"{"x" * size}"}}'

    header = '{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}'
    tools = (
        described("large", MAX_BYTES), described("fits", MAX_BYTES - 500),
        described("annotated", MAX_ANNOTATED_BYTES, header), described("both", 60_000, header),
    )  # fmt: skip
    lists = await fetched(Answers(f'{{"tools":[{",".join(tools)}]}}'.encode()))
    assert [tool["name"] for tool in lists.tools] == ["fits", "both"]
    assert [entry.entry for entry in lists.dropped] == ["large", "annotated"]
    assert "524,288 are the most" in lists.dropped[0].reason
    assert "x-mcp-header" in lists.dropped[1].reason
    assert lists.size_bytes > 2 * MAX_BYTES


async def test_an_upstream_that_says_too_much_of_itself_keeps_its_tools() -> None:
    face = {"tools": json.loads(properties(200))}
    link = Answers(f'{{"tools":[{TOOLS["good"]}]}}'.encode(), info=face, capabilities=face)
    lists = await fetched(link)
    assert (len(lists.tools), lists.info, lists.capabilities) == (1, {}, {})
    assert [entry.entry for entry in lists.dropped] == ["serverInfo", "capabilities"]


async def test_only_what_cannot_be_handled_is_missing_from_the_gateway(
    tmp_path: Path, hostile_server: Callable[[dict[str, str]], dict[str, Any]]
) -> None:
    deep = properties(250)
    bad = hostile_server(
        {
            "tools/list": f'{{"tools":[{",".join(TOOLS.values())}]}}',
            "prompts/list": f'{{"prompts":[{{"name":"p"}},{{"name":"q","x":{deep}}}]}}',
            "resources/list": f'{{"resources":[{{"uri":"a:b"}},{{"uri":"a:c","x":{deep}}}]}}',
            "resources/templates/list": f'{{"resourceTemplates":[{{"uriTemplate":"{{c}}",'
            f'"x":{deep}}}]}}',
        }
    )
    other = hostile_server({"tools/list": f'{{"tools":[{TOOLS["good"]}]}}'})
    config = {
        "upstreams": {"bad": bad, "other": other},
        "security": {"tokens": {"root": {"token": ROOT, "scopes": ["admin"]}}},
        "tool_rag": {"enabled": False},
    }
    with GatewayProcess(config, tmp_path) as gateway:
        assert isinstance(gateway, GatewayProcess)
        headers = {"Authorization": f"Bearer {ROOT}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            wanted = ["bad__good", "bad__last", "other__good"]
            body = modern_body(1, "tools/list")
            url = gateway.url + "/mcp"
            async with http.post(url, json=body, headers=modern_headers(body)) as response:
                listed = (await messages(response))[-1]["result"]["tools"]
            assert [tool["name"] for tool in listed if "__" in tool["name"]] == wanted
            legacy = LegacyClient(url, http, "2025-06-18")
            await legacy.initialize({})
            listed = (await legacy.request("tools/list"))["result"]["tools"]
            assert [tool["name"] for tool in listed if "__" in tool["name"]] == wanted
            prompts = (await legacy.request("prompts/list"))["result"]["prompts"]
            assert [prompt["name"] for prompt in prompts] == ["bad__p"]
            answer = await legacy.request("tools/call", {"name": "bad__good", "arguments": {}})
            assert "nested deeper than 512 levels" in answer["error"]["message"]
            async with http.get(gateway.url + "/v1/upstreams") as answered:
                first, second = (await answered.json())["upstreams"]
        tools = {e["entry"]: e["reason"] for e in first["dropped"] if e["list"] == "tools/list"}
        assert set(tools) == set(LEFT)
        assert all(LEFT[entry] in reason for entry, reason in tools.items())
        rest = [entry["entry"] for entry in first["dropped"] if entry["list"] != "tools/list"]
        assert (first["state"], first["dropped_count"], rest) == ("ready", 10, ["q", "a:c", "{c}"])
        assert (second["dropped_count"], second["dropped"]) == (0, [])
        assert gateway.status()["upstreams"]["bad"]["dropped"] == 10
        assert gateway.errors().count("upstream_entry_dropped") == 10


@pytest.fixture
def hostile_server(tmp_path: Path) -> Callable[[dict[str, str]], dict[str, Any]]:
    """The configuration of a stdio server that answers lists with any bytes."""
    program = tmp_path / "server.py"
    program.write_text(SERVER, encoding="utf-8")

    def made(lists: dict[str, str]) -> dict[str, Any]:
        content = tmp_path / f"lists{len(list(tmp_path.iterdir()))}.json"
        content.write_text(json.dumps(lists), encoding="utf-8")
        return {"command": sys.executable, "args": [str(program), str(content)]}

    return made
