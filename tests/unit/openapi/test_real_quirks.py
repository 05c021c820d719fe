"""What published descriptions do beside the standard: each loads as far as it goes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from armory.openapi.document import read_document
from armory.openapi.operation import Operation
from armory.openapi.operations import Operations, read_operations
from armory.openapi.requests import request_for
from armory.openapi.schemas import Schemas
from tests.unit.openapi.test_descriptions import described, post


def read(content: dict[str, Any]) -> Operations:
    return read_operations(read_document(yaml.safe_dump(content).encode()))


def only(content: dict[str, Any]) -> Operation:
    found = read(content)
    assert found.left_out == []
    (operation,) = found.by_name.values()
    Draft202012Validator.check_schema(operation.tool["inputSchema"])
    return operation


def body_of(schema: Any, **more: Any) -> dict[str, Any]:
    operation = only(described(paths={"/x": post(schema)}, **more))
    return operation.tool["inputSchema"]["properties"]["body"]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "any"}, {}),
        ({"type": ["string", "string"]}, {}),
        ({"type": "string", "pattern": r"a\.(?i)(jpeg|pdf)$"}, {"type": "string"}),
        ({"type": "string", "pattern": "("}, {"type": "string"}),
        ({"type": "string", "pattern": 3}, {"type": "string"}),
        ({"type": "string", "maxLength": "10"}, {"type": "string"}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"enum": []}, {}),
        ({"allOf": []}, {}),
        ({"properties": None}, {}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ({"exclusiveMaximum": True}, {}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"$recursiveAnchor": True, "type": "object"}, {"type": "object"}),
        ({"items": {"$recursiveRef": "#"}}, {"items": {}}),
    ],
)
def test_words_that_say_nothing_usable_are_left_out(
    version: str, schema: Any, written: Any
) -> None:
    assert body_of(schema, openapi=version) == written


def test_schemas_that_contain_each_other_end() -> None:
    node: Any = {
        "type": "object",
        "allOf": [{"$ref": "#/components/schemas/Base"}],
        "properties": {"next": {"$ref": "#/components/schemas/Node"}},
    }
    base = {"oneOf": [{"$ref": "#/components/schemas/Node"}, {"type": "null"}]}
    schemas = {"schemas": {"Node": node, "Base": base}}
    found = body_of({"$ref": "#/components/schemas/Node"}, components=schemas)
    Draft202012Validator.check_schema(found)
    assert found["properties"]["next"] == {"type": "object"}
    assert found["allOf"] == [{"oneOf": [{"type": "object"}, {"type": "null"}]}]


def test_references_are_followed_wherever_a_schema_stands() -> None:
    there = {"$ref": "#/components/schemas/A"}
    schema = {
        **dict.fromkeys(("if", "then", "else", "unevaluatedItems", "contentSchema"), there),
        "unevaluatedProperties": there,
        "dependentSchemas": {"a": there, "b": True},
        "items": [there, {"type": "integer"}],
    }
    found = body_of(schema, components={"schemas": {"A": {"type": "string"}}})
    Draft202012Validator.check_schema(found)
    assert "$ref" not in repr(found)
    assert found["then"] == {"type": "string"}
    assert found["dependentSchemas"] == {"a": {"type": "string"}, "b": {}}
    assert found["prefixItems"] == [{"type": "string"}, {"type": "integer"}]


def test_one_name_in_two_places() -> None:
    listed = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "id", "in": "query", "schema": {"type": "integer"}},
        {"name": "body", "in": "query", "schema": {"type": "string"}},
    ]
    item = post({"type": "object"})
    item["post"]["parameters"] = listed
    operation = only(described(paths={"/x/{id}": item}))
    sent = {"id": "a b", "id_query": 2, "body": "q", "request_body": {"k": 1}}
    request = request_for(operation, sent)
    assert (request.target, request.body) == ("/x/a%20b?id=2&body=q", b'{"k":1}')


def test_an_operation_in_another_document_is_none() -> None:
    found = read(described(paths={"/x": {"get": {"$ref": "x.yml"}, "put": {}}}))
    assert found.left_out == [("GET /x", "it refers to another document, x.yml")]
    assert list(found.by_name) == ["put_x"]


def test_a_style_that_a_query_cannot_have() -> None:
    listed = {"name": "ids", "in": "query", "style": "simple", "schema": {"type": "array"}}
    operation = only(described(paths={"/x": {"get": {"parameters": [listed]}}}))
    assert request_for(operation, {"ids": ["a", "b"]}).target == "/x?ids=a,b"


@pytest.mark.parametrize(
    ("servers", "own", "configured", "names"),
    [
        ("https://a.test", "https://a.test/", None, ["same", "plain"]),
        ("https://a.test", "https://b.test", None, ["plain"]),
        ("https://a.test/v1", "https://a.test/v2", None, ["plain"]),
        ("https://a.test", "https://a.test", "https://c.test", ["same", "plain"]),
        (None, "https://a.test/v1", None, ["same", "plain"]),
        (None, "https://a.test/v1", "https://a.test/v1/", ["same", "plain"]),
        (None, "https://a.test/v1", "https://c.test", ["plain"]),
    ],
)
def test_operations_that_name_a_server(
    servers: str | None, own: str, configured: str | None, names: list[str]
) -> None:
    paths = {
        "/s": {"servers": [{"url": own}], "get": {"operationId": "same"}},
        "/p": {"get": {"operationId": "plain"}},
    }
    more: Any = {"servers": [{"url": servers}]} if servers else {}
    document = read_document(yaml.safe_dump(described(paths=paths, **more)).encode())
    found = read_operations(document, base=configured)
    assert sorted(found.by_name) == sorted(names)
    assert [why for _, why in found.left_out] == [
        f"it has servers of its own, {own}, which are not asked"
    ] * (2 - len(names))
    assert document.base_url(configured) == (configured or servers or own)


def test_yaml_means_what_json_can_say() -> None:
    text = """
openapi: 3.0.3
info: {title: x, version: 2020-09-14}
x-day: 2020-09-14
x-time: 12:30:00
x-zero: 0123
x-list: [no, on, yes, NO, true, 0x10, 1e3, .inf, .nan, ~, null, 1.5, -3]
paths: {}
on: no
"""
    content = read_document(text.encode()).content
    assert content["info"]["version"] == "2020-09-14"
    assert content["on"] == "no"
    said = [content[f"x-{key}"] for key in ("day", "time", "zero")]
    assert said == ["2020-09-14", "12:30:00", "0123"]
    assert content["x-list"] == [
        *("no", "on", "yes", "NO", True, 16, 1000.0, ".inf", ".nan", None, None, 1.5, -3)
    ]


SWAGGER: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "x", "version": "1"},
    "host": "a.test",
    "basePath": "/v1",
    "schemes": ["http", "https"],
    "consumes": ["application/json"],
    "parameters": {"page": {"name": "page", "in": "query", "type": "integer"}},
    "definitions": {
        "Pet": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "of": {"$ref": "#/definitions/Pet"}},
        }
    },
    "paths": {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "type": "string"}],
            "get": {
                "operationId": "find",
                "parameters": [
                    {"$ref": "#/parameters/page"},
                    *(
                        {
                            "name": kind,
                            "in": "query",
                            "type": "array",
                            "items": {"type": "string"},
                            "collectionFormat": kind,
                        }
                        for kind in ("csv", "ssv", "pipes", "multi")
                    ),
                ],
            },
            "put": {
                "operationId": "change",
                "parameters": [
                    {
                        "name": "pet",
                        "in": "body",
                        "required": True,
                        "schema": {"$ref": "#/definitions/Pet"},
                    }
                ],
            },
            "post": {
                "operationId": "picture",
                "consumes": ["multipart/form-data"],
                "parameters": [
                    {"name": "note", "in": "formData", "type": "string", "description": "Why"},
                    {"name": "data", "in": "formData", "type": "file", "required": True},
                ],
            },
            "patch": {
                "operationId": "rename",
                "consumes": ["application/x-www-form-urlencoded"],
                "parameters": [{"name": "name", "in": "formData", "type": "string"}],
            },
            "delete": {"operationId": "bad", "parameters": [{"$ref": "#/parameters/none"}]},
        }
    },
}


def test_swagger_is_read_as_openapi() -> None:
    document = read_document(yaml.safe_dump(SWAGGER).encode())
    assert document.base_url(None) == "https://a.test/v1"
    found = read_operations(document)
    assert [name for name, _ in found.left_out] == ["bad"]
    for operation in found.by_name.values():
        Draft202012Validator.check_schema(operation.tool["inputSchema"])
    find, change, picture, rename = (
        found.by_name[name] for name in ("find", "change", "picture", "rename")
    )
    two = ["a", "b"]
    sent = {"id": "1", "page": 2, **dict.fromkeys(("csv", "ssv", "pipes", "multi"), two)}
    target = request_for(find, sent).target
    assert target == "/pets/1?page=2&csv=a,b&ssv=a%20b&pipes=a%7Cb&multi=a&multi=b"
    assert request_for(change, {"id": "1", "body": {"name": "Rex"}}).body == b'{"name":"Rex"}'
    assert change.tool["inputSchema"]["required"] == ["id", "body"]
    form = picture.tool["inputSchema"]["properties"]["body"]
    assert form["properties"]["note"] == {"type": "string", "description": "Why"}
    assert form["properties"]["data"] == {"type": "string", "contentEncoding": "base64"}
    request = request_for(picture, {"id": "1", "body": {"note": "n", "data": "aGk="}})
    assert b'filename="data"' in (request.body or b"")
    assert b"\r\n\r\nhi\r\n" in (request.body or b"")
    request = request_for(rename, {"id": "1", "body": {"name": "a b"}})
    assert request.body == b"name=a%20b"
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("more", "base"),
    [
        ({"schemes": ["http"]}, "http://a.test/v1"),
        ({"schemes": []}, "https://a.test/v1"),
        ({"basePath": None}, "https://a.test"),
    ],
)
def test_where_a_swagger_api_is(more: dict[str, Any], base: str) -> None:
    assert read_document(yaml.safe_dump({**SWAGGER, **more}).encode()).base_url(None) == base


@pytest.mark.parametrize(
    "broken",
    [
        {"paths": {"/x": 3}},
        {"paths": {"/x": {"parameters": 3, "get": {}}}},
        {"paths": {"/x": {"get": {"parameters": [3]}}}},
        {"paths": {"/x": {"get": {"parameters": {}}}}},
        {"paths": {"/x": {"get": {"parameters": [{"in": ["body"], "name": {}}]}}}},
        {"paths": {"/x": {"$ref": "#/paths/~1x"}}},
    ],
)
def test_a_broken_part_of_swagger_costs_itself_alone(broken: dict[str, Any]) -> None:
    paths = {**broken["paths"], "/y": {"get": {"operationId": "good"}}}
    found = read({**SWAGGER, "paths": paths})
    assert list(found.by_name) == ["good"]
    assert len(found.left_out) == 1


def test_a_pattern_of_no_end_is_none() -> None:
    document = read_document(yaml.safe_dump(described()).encode())
    for pattern in ("(" * 5_000 + ")" * 5_000, "(" * 400 + ")" * 400, "a{99999999999999}"):
        written = Schemas(document).whole({"type": "string", "pattern": pattern})
        assert written.get("pattern", pattern) == pattern
        Draft202012Validator.check_schema(written)
