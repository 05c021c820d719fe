"""Schemas of arguments that model providers would refuse, and with them every tool of a request."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from armory.gateway.views.readable import readable

GOOD: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "a": {"type": ["string", "null"], "pattern": r"^\p{L}+$", "enum": [], "nullable": True},
        "b": {"anyOf": [{"$ref": "#/$defs/B"}, True], "exclusiveMinimum": 0},
        "required": {"type": "array", "items": {"type": "string"}, "examples": [["x"]]},
    },
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"B": {"type": "number", "default": None}},
}


def listed(schema: Any) -> Any:
    return readable({"name": "a", "inputSchema": schema}, "tools")["inputSchema"]


def test_a_valid_schema_is_the_very_object() -> None:
    assert listed(GOOD) is GOOD


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"type": "int"}, {"type": "integer"}),
        ({"type": "String"}, {"type": "string"}),
        ({"type": "any", "title": "A"}, {"title": "A"}),
        ({"type": ["str", "none", "what"]}, {"type": ["string", "null"]}),
        ({"type": []}, {}),
        ({"type": ["string", ["null"], {}, None]}, {"type": ["string"]}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}),
        ({"maximum": 9, "exclusiveMaximum": False}, {"maximum": 9}),
        ({"exclusiveMaximum": True}, {}),
        (
            {"type": "array", "items": [{"type": "float"}, {}], "additionalItems": False},
            {"type": "array", "prefixItems": [{"type": "number"}, {}], "items": False},
        ),
        ({"type": "array", "items": []}, {"type": "array"}),
        ({"additionalProperties": None, "vendor": None}, {"vendor": None}),
        (
            {"anyOf": [], "oneOf": [{"type": "string"}, "no schema"]},
            {"oneOf": [{"type": "string"}, {}]},
        ),
        (
            {"properties": {"coin": {"type": "str"}, "required": ["coin"]}},
            {"properties": {"coin": {"type": "string"}, "required": {}}},
        ),
        ({"examples": "x", "description": 1, "minLength": "1"}, {}),
        ({"required": ["a", "b", "a"], "readOnly": "yes"}, {"required": ["a", "b"]}),
        ({"dependentRequired": {"a": "b"}, "dependencies": {"a": ["b", "b"]}}, {}),
        ({"$ref": None, "$anchor": "a b", "$comment": 1}, {}),
        ({"$id": "#/properties/y"}, {}),
        ({"$id": "#Y", "type": "string"}, {"$anchor": "Y", "type": "string"}),
        ("string", {}),
    ],
)
def test_what_is_not_valid_is_rewritten_or_left_out_alone(given: Any, shown: Any) -> None:
    schema = {"type": "object", "properties": {"x": {"items": {"not": given}}, "y": given}}
    found = listed(schema)
    Draft202012Validator.check_schema(found)
    assert found["properties"]["y"] == shown
    if isinstance(given, dict):
        assert found["properties"]["x"] == {"items": {"not": shown}}


def test_a_schema_in_another_form_does_not_say_that_it_is_of_its_old_draft() -> None:
    pair = {"type": "array", "items": [{"type": "string"}], "additionalItems": False}
    given = {"$schema": GOOD["$schema"], "type": "object", "properties": {"pair": pair}}
    for schema in (given, listed(given)):  # read as of draft 7, `items: false` allows no item
        validator_for(schema)(schema).validate({"pair": ["a"]})


def test_what_is_defined_beside_is_looked_through_as_well() -> None:
    schema = {"type": "object", "$defs": {"A": {"type": "int"}}, "definitions": {"B": None}}
    found = listed(schema)
    Draft202012Validator.check_schema(found)
    assert found == {
        "type": "object",
        "$defs": {"A": {"type": "integer"}},
        "definitions": {"B": {}},
    }
