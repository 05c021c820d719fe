"""Definitions of tools as clients are listed them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from armory.domain.catalog import Catalog, ServerLists, ToolRules
from armory.domain.catalog_builder import build_catalog
from armory.domain.tool import ListedRecord, ToolRecord
from armory.gateway.metatools.definitions import MAX_DESCRIPTION, search_definition
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.definitions import Form, listed_bytes, tool_bytes
from armory.gateway.views.view import View
from armory.protocol.headers import declared_headers
from armory.security.policy import Policy
from armory.testing.front import tool


def shown(definition: dict[str, Any], form: Form, **rules: Any) -> dict[str, Any]:
    lists = {"s": ServerLists(tools=[definition])}
    catalog, _ = build_catalog(lists, {"s": ToolRules(**rules)})
    (record,) = catalog.tools.values()
    return msgspec.json.decode(tool_bytes(record, form))


def test_definitions_keep_what_they_have() -> None:
    definition = {
        "name": "a",
        "title": "T",
        "inputSchema": {"type": "object", "x": None},
        "icons": [{"src": "x"}],
        "new": {"deep": [1.5]},
    }
    assert shown(definition, Form("modern", original=True, headers=True)) == definition
    assert shown(definition, Form("modern")) == {**definition, "name": "s__a"}
    assert shown(definition, Form("modern"), rename={"a": "b"}, describe={"a": "d"}) == {
        **definition,
        "name": "s__b",
        "description": "d",
    }


def test_app_links_are_mapped() -> None:
    meta = {"ui": {"resourceUri": "ui://x", "v": 1}, "ui/resourceUri": "ui://x", "k": 2}
    got = shown({"name": "a", "_meta": meta}, Form("modern", load=True))
    assert got["_meta"] == {
        "ui": {"resourceUri": "ui://s/x", "v": 1},
        "ui/resourceUri": "ui://s/x",
        "k": 2,
        "anthropic/alwaysLoad": True,
    }
    assert shown({"name": "a", "_meta": {"ui": 3}}, Form("modern"))["_meta"] == {"ui": 3}
    assert shown({"name": "a", "_meta": 3}, Form("modern", load=True))["_meta"] == {
        "anthropic/alwaysLoad": True
    }


@pytest.mark.parametrize(
    ("schema", "kept", "modern"),
    [
        ({"type": "object"}, True, True),
        ({"type": "array"}, False, True),
        (True, False, False),
    ],
)
def test_output_schemas_of_clients(schema: Any, kept: bool, modern: bool) -> None:
    definition = {"name": "a", "outputSchema": schema}
    assert ("outputSchema" in shown(definition, Form("legacy"))) is kept
    assert ("outputSchema" in shown(definition, Form("modern"))) is modern


def test_header_annotations() -> None:
    schema = {
        "type": "object",
        "properties": {
            "zone": {"type": "string", "x-mcp-header": "Zone"},
            "x-mcp-header": {"type": "string"},
            "deep": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "bad": {"type": "number", "x-mcp-header": "Bad"},
            "odd": True,
        },
        "anyOf": [{"x-mcp-header": "no"}, {"a": 1}],
    }
    assert declared_headers(schema) == {
        "Mcp-Param-Zone": (("zone",), "string"),
        "Mcp-Param-N": (("deep", "n"), "integer"),
    }
    definition = {"name": "a", "inputSchema": schema}
    bare = shown(definition, Form("modern"))["inputSchema"]
    assert bare["properties"]["zone"] == {"type": "string"}
    assert "x-mcp-header" in bare["properties"]
    assert bare["anyOf"] == [{}, {"a": 1}]
    assert shown(definition, Form("modern", headers=True))["inputSchema"] == schema


def test_listed_records() -> None:
    definition = {"uri": "ui://a", "name": "a", "_meta": {"ui": {"resourceUri": "ui://a"}}}
    record = ListedRecord("ui://s/a", "s", "ui://a", definition, "")
    got = msgspec.json.decode(listed_bytes(record, "resources", Form("modern")))
    assert got == {**definition, "uri": "ui://s/a", "_meta": {"ui": {"resourceUri": "ui://s/a"}}}
    same = msgspec.json.decode(listed_bytes(record, "resources", Form("modern", original=True)))
    assert same == definition


def test_search_tools_says_what_is_behind_within_bounds() -> None:
    few = {
        "git": ServerLists(info={"description": "Version control. More."}),
        "clock": ServerLists(instructions="Tells time.\nReally."),
        "x": ServerLists(tools=[tool(f"t{i}", "") for i in range(6)]),
        "y": ServerLists(tools=[tool("only", "")]),
        "z": ServerLists(),
        "long": ServerLists(instructions="w" * 500),
    }
    text = search_definition(few, call_tool=True)["description"]
    assert "git (Version control)" in text
    assert "clock (Tells time)" in text
    assert "x (t0, t1, t2, t3 ...)" in text
    assert "y (only)" in text
    assert "z (z)" in text
    for count in (0, 30, 60, 500):
        many = {f"server-{i}": ServerLists(instructions="p" * 60) for i in range(count)}
        text = search_definition(many, call_tool=False)["description"]
        assert len(text) <= MAX_DESCRIPTION
    assert "more." in text


def test_tool_records_without_a_schema() -> None:
    record = ToolRecord("s__a", "s", "a", {"name": "a"}, "")
    own = Form("modern", original=True)
    assert msgspec.json.decode(tool_bytes(record, own)) == {"name": "a"}
    listed = msgspec.json.decode(tool_bytes(record, Form("modern")))
    assert listed == {"name": "s__a", "inputSchema": {"type": "object"}}


def test_queries_that_were_written_for_a_tool_are_in_its_hint() -> None:
    key = "anthropic/searchHint"
    examples = ("tell ann that I am late", "x" * 480, "write to bob")
    record = ToolRecord("s__a", "s", "a", {"name": "a"}, "", tags=("mail",), examples=examples)

    def hint(shown: ToolRecord) -> Any:
        return msgspec.json.decode(tool_bytes(shown, Form("modern"))).get("_meta")

    assert hint(record) == {key: "mail; tell ann that I am late; write to bob"}
    assert hint(replace(record, tags=())) == {key: "tell ann that I am late; write to bob"}
    own = {"name": "a", "_meta": {key: "own"}}
    assert hint(replace(record, definition=own)) == {key: "own"}


def test_a_view_shows_what_was_written_since_the_last_one() -> None:
    def view(version: int, before: View | None, *examples: str) -> View:
        record = ToolRecord("s__a", "s", "a", {"name": "a"}, "", examples=examples)
        catalog = Catalog(version, {}, {"s__a": record}, {}, {}, {})
        return View(catalog, Policy(()), GatewaySettings(), before)

    form = Form("modern")
    first = view(1, None)
    assert b"searchHint" not in first.listed.tool("s__a", form)
    second = view(2, first, "write to bob")
    assert b"write to bob" in second.listed.tool("s__a", form)
    assert second.catalog.tools == first.catalog.tools  # nobody is told of news


def test_tags_become_a_hint_for_clients_that_search() -> None:
    def hint(**more: Any) -> Any:
        definition = tool("t", "d", **more)
        rules = {"up": ToolRules(tags={"*": ("mail", "send")}, category="office")}
        catalog, _ = build_catalog({"up": ServerLists(tools=[definition])}, rules)
        record = catalog.tools["up__t"]
        shown = [tool_bytes(record, Form("modern", original=o)) for o in (False, True)]
        return [msgspec.json.decode(one).get("_meta") for one in shown]

    key = "anthropic/searchHint"
    assert hint() == [{key: "mail send office"}, None]
    assert hint(_meta={key: "own", "x": 1}) == [{key: "own", "x": 1}] * 2
    assert hint(_meta={"x": 1}) == [{"x": 1, key: "mail send office"}, {"x": 1}]
