"""Bodies and queries of which a description says how their members are written."""

from __future__ import annotations

from typing import Any

import pytest

from armory.openapi.operation import Operation
from armory.openapi.requests import request_for
from tests.unit.openapi.test_arguments import parameter
from tests.unit.openapi.test_descriptions import described
from tests.unit.openapi.test_real_quirks import SWAGGER, only

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


def sending(kind: str, properties: dict[str, Any], encoding: dict[str, Any]) -> Operation:
    media = {"schema": {"type": "object", "properties": properties}, "encoding": encoding}
    body = {"content": {kind: media}}
    return only(described(paths={"/x": {"post": {"operationId": "make", "requestBody": body}}}))


def body_of(operation: Operation, value: Any) -> str:
    return (request_for(operation, {"body": value}).body or b"").decode()


DEEP = {"style": "deepObject", "explode": True}


@pytest.mark.parametrize(
    ("said", "value", "sent"),
    [
        (DEEP, {"city": "Bonn", "geo": {"lat": 1}}, "m[city]=Bonn&m[geo][lat]=1"),
        (DEEP, ["a", "b"], "m[0]=a&m[1]=b"),
        (DEEP, [{"price": "p", "tags": ["x"]}], "m[0][price]=p&m[0][tags][0]=x"),
        (DEEP, "", "m="),
        ({"style": "form"}, {"a": 1, "b": 2}, "a=1&b=2"),
        ({"explode": False}, ["a", "b"], "m=a,b"),
        ({"style": "pipeDelimited"}, ["a", "b"], "m=a|b"),
        ({"contentType": "application/json"}, {"a": 1}, 'm={"a":1}'),
        ({}, {"a": 1}, 'm={"a":1}'),
        ({}, ["a", "b"], "m=a&m=b"),
        ({"style": 3}, "a", "m=a"),
        (3, "a", "m=a"),
        ({}, None, ""),
        (DEEP, {"a": None, "b": [None, 1]}, "m[b][0]=1"),
    ],
)
def test_a_member_of_a_form_is_written_as_it_is_said(said: Any, value: Any, sent: str) -> None:
    body = body_of(sending(FORM, {"m": {}}, {"m": said}), {"m": value})
    signs = {"%5B": "[", "%5D": "]", "%7C": "|", "%7B": "{", "%7D": "}", "%22": '"', "%3A": ":"}
    for code, sign in signs.items():
        body = body.replace(code, sign)
    assert body == sent


def test_lists_of_files_are_files() -> None:
    files = {"type": "array", "items": {"type": "string", "format": "binary"}}
    operation = sending(MULTIPART, {"files": files}, {})
    asked = operation.tool["inputSchema"]["properties"]["body"]["properties"]["files"]
    assert asked["items"] == {"type": "string", "contentEncoding": "base64"}
    body = body_of(operation, {"files": ["aGk=", "aG8="]})
    for text in ("hi", "ho"):
        part = f'filename="files"\r\nContent-Type: application/octet-stream\r\n\r\n{text}\r\n'
        assert part in body


BINARY = {"type": "string", "format": "binary"}
LINK = {"type": "string", "format": "uri"}


@pytest.mark.parametrize(
    ("member", "is_file"),
    [
        ({"allOf": [BINARY], "description": "A photo."}, True),
        ({"anyOf": [BINARY, {"type": "null"}]}, True),
        ({"type": "array", "items": {"allOf": [BINARY]}}, True),
        ({"oneOf": [BINARY, LINK]}, False),
    ],
)
def test_files_are_found_in_what_is_put_together(member: dict[str, Any], is_file: bool) -> None:
    base = {"type": "object", "properties": {"m": member}}
    schema = {"allOf": [base, {"type": "object", "properties": {"note": {"type": "string"}}}]}
    body = {"content": {MULTIPART: {"schema": schema}}}
    made = only(described(paths={"/x": {"post": {"operationId": "make", "requestBody": body}}}))
    asked = str(made.tool["inputSchema"])
    assert ("'contentEncoding': 'base64'" in asked, "binary" not in asked) == (is_file, is_file)
    sent = body_of(made, {"m": "aGk=", "note": "n"})
    assert ('filename="m"' in sent, "\r\n\r\nhi\r\n" in sent) == (is_file, is_file)
    assert 'name="note"\r\n\r\nn\r\n' in sent


def test_parts_have_the_media_type_that_is_said() -> None:
    file = {"type": "string", "format": "binary"}
    encoding = {
        "photo": {"contentType": "image/png"},
        "any": {"contentType": "image/png, image/jpeg"},
        "about": {"contentType": "application/json"},
        "list": {"contentType": "application/json"},
        "note": {"contentType": "text/markdown"},
    }
    operation = sending(MULTIPART, {"photo": file, "any": file}, encoding)
    given = {"photo": "aGk=", "any": "aGk=", "about": '{"a":1}', "list": [1, 2], "note": "# x"}
    body = body_of(operation, {**given, "gone": None})
    assert 'name="photo"; filename="photo"\r\nContent-Type: image/png\r\n\r\nhi' in body
    assert 'name="any"; filename="any"\r\nContent-Type: application/octet-stream' in body
    assert 'name="about"\r\nContent-Type: application/json\r\n\r\n{"a":1}\r\n' in body
    assert 'name="list"\r\nContent-Type: application/json\r\n\r\n[1,2]\r\n' in body
    assert 'name="note"\r\nContent-Type: text/markdown\r\n\r\n# x\r\n' in body
    assert "gone" not in body


def test_lists_in_a_form_of_swagger_are_written_as_it_says() -> None:
    listed = [
        {"name": kind, "in": "formData", "type": "array", "collectionFormat": kind}
        for kind in ("csv", "pipes", "multi")
    ]
    form = {"operationId": "make", "consumes": [FORM], "parameters": listed}
    operation = only({**SWAGGER, "paths": {"/x": {"post": form}}})
    sent = body_of(operation, {kind: ["a", "b"] for kind in ("csv", "pipes", "multi")})
    assert sent == "csv=a,b&pipes=a%7Cb&multi=a&multi=b"


def test_lists_and_what_is_null_in_a_query() -> None:
    listed = [
        parameter("deep", style="deepObject", explode=True),
        parameter("ids", explode=False),
        parameter("spread"),
        parameter("X-List", "header"),
    ]
    operation = only(described(paths={"/x": {"get": {"parameters": listed}}}))

    def target(**sent: Any) -> str:
        return request_for(operation, sent).target

    assert target(deep=["a", "b"]) == "/x?deep%5B0%5D=a&deep%5B1%5D=b"
    assert target(deep={"a": {"b": 1}, "c": None}) == "/x?deep%5Ba%5D%5Bb%5D=1"
    assert target(ids=[], spread={"a": None, "b": 1}) == "/x?b=1"
    assert target(ids=["a", None], spread={}) == "/x?ids=a"
    assert request_for(operation, {"X-List": ["a", None, "b"]}).headers["X-List"] == "a,b"
