"""What is left out of an entry that clients could not read, or added to it."""

from __future__ import annotations

from typing import Any

import pytest

from armory.gateway.views.readable import readable

SCHEMA: dict[str, Any] = {"type": "object"}
WHOLE: list[tuple[str, dict[str, Any]]] = [
    (
        "tools",
        {
            "name": "a",
            "title": "A",
            "description": "",
            "inputSchema": {
                "$schema": "s",
                "type": "object",
                "properties": {"x": True, "y": {"type": "string", "vendor": "no keyword"}},
                "required": [],
                "more": None,
            },
            "outputSchema": {"type": "array", "items": {}},
            "annotations": {"title": "t", "readOnlyHint": True, "vendor": None},
            "icons": [{"src": "a:b", "sizes": ["any"], "theme": "dark", "vendor": 1}],
            "execution": {"taskSupport": "optional"},
            "_meta": {"vendor/key": None},
            "vendor": [1.5],
        },
    ),
    ("prompts", {"name": "a", "arguments": [{"name": "x", "required": False, "vendor": {}}]}),
    (
        "resources",
        {
            "uri": "a:b",
            "name": "",
            "size": 10,
            "mimeType": "text/plain",
            "annotations": {
                "audience": ["user", "assistant"],
                "priority": 1,
                "lastModified": "2025-01-12T15:00:58.25+01:00",
            },
        },
    ),
    (
        "resources",
        {"uri": "a", "name": "a", "annotations": {"lastModified": "2025-01-12T15:00:58Z"}},
    ),
    ("templates", {"uriTemplate": "a:{b}", "name": "a", "annotations": {"priority": 0.5}}),
]


@pytest.mark.parametrize(("kind", "entry"), WHOLE)
def test_what_is_right_is_the_very_object(kind: str, entry: dict[str, Any]) -> None:
    assert readable(entry, kind) is entry


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        (None, SCHEMA),
        ([], SCHEMA),
        ({}, SCHEMA),
        ({"type": "string", "a": 1}, {"type": "object", "a": 1}),
        ({**SCHEMA, "properties": [], "required": None, "a": None}, {**SCHEMA, "a": None}),
        (
            {**SCHEMA, "properties": {"a": None, "b": 1}},
            {**SCHEMA, "properties": {"a": {}, "b": {}}},
        ),
        ({**SCHEMA, "required": ["a", 1, None]}, {**SCHEMA, "required": ["a"]}),
    ],
)
def test_a_schema_of_arguments_is_one_of_an_object(given: Any, listed: Any) -> None:
    assert readable({"name": "a", "inputSchema": given}, "tools")["inputSchema"] == listed


@pytest.mark.parametrize(
    ("kind", "member", "given", "listed"),
    [
        ("tools", "title", None, None),
        ("tools", "outputSchema", True, None),
        ("tools", "outputSchema", {"required": None}, {}),
        ("tools", "annotations", {"destructiveHint": 1, "title": "t"}, {"title": "t"}),
        ("tools", "icons", [{"src": "a", "sizes": "any", "theme": 1}, {}, None], [{"src": "a"}]),
        ("tools", "execution", {"taskSupport": ["required"]}, {}),
        ("tools", "_meta", [], None),
        ("prompts", "arguments", None, None),
        ("prompts", "arguments", [{"name": "a", "required": "yes"}, "b"], [{"name": "a"}]),
        ("resources", "size", 1.5, None),
        ("resources", "size", True, None),
        (
            "resources",
            "annotations",
            {"priority": -1, "audience": [1, "user"]},
            {"audience": ["user"]},
        ),
        ("resources", "annotations", {"lastModified": "2025-13-12T15:00:58Z"}, {}),
        ("resources", "annotations", {"lastModified": "2025-01-12"}, {}),
        ("resources", "annotations", {"lastModified": "2025-01-12T15:00Z"}, {}),
        ("templates", "mimeType", 5, None),
    ],
)
def test_what_is_wrong_is_left_out_alone(kind: str, member: str, given: Any, listed: Any) -> None:
    """None: all of the member."""
    entry = {"name": "a", "inputSchema": SCHEMA, "vendor": None, member: given}
    found = dict(readable(entry, kind))
    assert found.pop(member, None) == listed
    assert found == {"name": "a", "inputSchema": SCHEMA, "vendor": None}


@pytest.mark.parametrize(
    ("part", "kept"),
    [
        ({"$ref": "#/$defs/x"}, True),
        ({"$ref": "#"}, True),
        ({"$ref": "#/$defs/a~1b~0c%20d/anyOf/1"}, True),
        ({"$ref": "#named"}, True),
        ({"$ref": "https://example.org/s#/$defs/x"}, True),
        ({"default": {"type": "circle", "$ref": "#/nowhere"}, "const": {"type": "x"}}, True),
        ({"properties": {"type": {"type": "string"}, "$ref": {"type": ["null", "string"]}}}, True),
        ({"$ref": "#/components/schemas/Pet"}, False),
        ({"$ref": "#/$defs/a~1b~0c%20d/anyOf/2"}, False),
        ({"$ref": "https://example.org/other"}, False),
        ({"$ref": "#/$defs/a~1b~0c%20d/anyOf/" + "1" * 5_000}, False),
        ({"$ref": "Pet"}, False),
        ({"type": "any"}, False),
        ({"anyOf": [{"type": "date"}]}, False),
        ({"$id": "https://example.org/inner", "properties": {"a": {"$ref": "#/x"}}}, True),
    ],
)
def test_a_schema_of_results_that_cannot_be_compiled_is_left_out(
    part: dict[str, Any], kept: bool
) -> None:
    schema = {
        "$id": "https://example.org/s",
        "type": "object",
        "properties": {"part": part},
        "$defs": {"x": {}, "a/b~c d": {"anyOf": [{}, {"type": "null"}]}},
    }
    found = readable({"name": "a", "inputSchema": SCHEMA, "outputSchema": schema}, "tools")
    assert found.get("outputSchema") == (schema if kept else None)


def test_a_very_large_schema_of_results_is_not_looked_through() -> None:
    """Looking through 24,000 references took 30 ms in the event loop, for each such tool."""
    counted = 0

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal counted
            counted += 1
            return super().get(key, default)

    properties = {f"p{n}": Counted({"$ref": "#/nowhere"}) for n in range(24_000)}
    inside = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"inside": inside}}
    found = readable({"name": "a", "inputSchema": SCHEMA, "outputSchema": schema}, "tools")
    assert found["outputSchema"] is schema
    assert counted == 0


def test_what_has_no_name_is_called_by_its_address() -> None:
    assert readable({"uri": "a:b", "name": None}, "resources") == {"uri": "a:b", "name": "a:b"}
    assert readable({"uriTemplate": "a:{b}"}, "templates")["name"] == "a:{b}"
