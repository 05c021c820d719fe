"""Descriptions that are none, that never end, and that say wrongly where the API is."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from armory.openapi.document import (
    MAX_VALUES,
    MAX_YAML_BYTES,
    BadDescription,
    Document,
    read_document,
)
from armory.openapi.operations import MAX_OPERATIONS, read_operations
from armory.openapi.requests import request_for
from armory.openapi.results import result_of
from armory.openapi.schemas import MAX_NODES, Schemas
from armory.openapi.styles import BadArguments


def described(**more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {}, **more}


def post(schema: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"post": {"operationId": "make", "requestBody": {"content": content}}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "neither a JSON object"),
        (b'{"openapi":"3.1.0","x":[%b0]}' % (b"0," * MAX_VALUES), "more than 1,000,000 values"),
        (b"[]", "neither a JSON object"),
        (b"<html>", "neither a JSON object"),
        (b"a: [", "neither JSON nor YAML"),
        (b"\xff\xfe\x00", "neither JSON nor YAML"),
        (b"{}", "'openapi' is None"),
        (b"openapi: 3", "'openapi' is 3; expected a version"),
        (b"openapi: 2.0.0", "'2.0.0'"),
        (b"swagger: '1.2'", "Swagger 1.2"),
        (b"openapi: 3.0.0\npaths: []", "'paths' is no object"),
        (b"[" * 100_000, "nested deeper than"),
        (b'{"a":' * 100_000, "nested deeper than"),
        (b"# x\n" * (MAX_YAML_BYTES // 4 + 1), "give JSON"),
        (b"!!python/object/apply:os.system [id]", "neither JSON nor YAML"),
    ],
)
def test_what_is_no_description_says_why(text: bytes, why: str) -> None:
    with pytest.raises(BadDescription, match=why.replace("'", ".")):
        read_document(text)


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["openapi: 3.0.0", "a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(BadDescription, match="multiply"):
        read_document("\n".join(lines).encode())


@pytest.mark.parametrize(
    ("servers", "origin", "base"),
    [
        ([{"url": "https://api.example/v1"}], "", "https://api.example/v1"),
        ([{"url": "/v2"}], "https://api.example/docs/open.json", "https://api.example/v2"),
        ([{"url": "v2"}], "https://api.example/docs/open.json", "https://api.example/docs/v2"),
        (None, "https://api.example/docs/open.json", "https://api.example/"),
        (
            [{"url": "https://{a}.example", "variables": {"a": {"default": "eu"}}}],
            "",
            "https://eu.example",
        ),
        (
            [{"url": "https://{a}.example", "variables": {"a": {"enum": ["us", "eu"]}}}],
            "",
            "https://us.example",
        ),
    ],
)
def test_where_the_api_is(servers: Any, origin: str, base: str) -> None:
    assert Document(described(servers=servers), origin).base_url(None) == base
    assert Document(described(servers=servers), origin).base_url("http://x") == "http://x"


@pytest.mark.parametrize(
    ("servers", "origin"),
    [
        ([{"url": "http://169.254.169.254/"}], "https://api.example/open.json"),
        ([{"url": "http://api.example/"}], "https://api.example/open.json"),
        ([{"url": "file:///etc"}], ""),
        ([{"url": "/v1"}], ""),
        ([{"url": "https://{a}.example"}], ""),
        ([{"url": "https://{a}.example/v1", "variables": {"a": {"description": "yours"}}}], ""),
        ([{"url": "https://x.example/{a}", "variables": {"a": {"default": None}}}], ""),
        ([7], ""),
        ("x", ""),
    ],
)
def test_no_description_sends_credentials_elsewhere(servers: Any, origin: str) -> None:
    with pytest.raises(BadDescription, match="give base_url"):
        Document(described(servers=servers), origin).base_url(None)


def test_schemas_end_whatever_they_are() -> None:
    wide = {f"p{n}": {"type": "object", "properties": {"q": {}}} for n in range(MAX_NODES)}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    schemas: dict[str, Any] = {
        "wide": {"properties": wide},
        "deep": deep,
        **{
            f"s{n}": {"properties": {k: {"$ref": f"#/components/schemas/s{n + 1}"} for k in "abcd"}}
            for n in range(20)
        },
        "s20": {"$ref": "#/components/schemas/s0"},
    }
    document = Document(described(components={"schemas": schemas}))
    for name in ("wide", "deep", "s0"):
        whole = Schemas(document).whole({"$ref": f"#/components/schemas/{name}"})
        assert len(json.dumps(whole)) < 120_000
        assert "$ref" not in json.dumps(whole)


def test_one_bad_operation_costs_itself_alone() -> None:
    paths = {"/a": post({"enum": [1], "type": 7}), "/b": {"get": {}}, "/c": post({"$ref": "#/x"})}
    found = read_operations(Document(described(paths=paths)))
    assert list(found.by_name) == ["make", "get_b"]
    assert found.left_out == [("post_c", "it refers to #/x, which is not there")]


def test_operations_beyond_the_limit_are_named() -> None:
    paths = {f"/{n}": {"get": {}} for n in range(MAX_OPERATIONS + 2)}
    found = read_operations(Document(described(paths=paths)))
    assert len(found.by_name) == MAX_OPERATIONS
    assert [name for name, _ in found.left_out] == ["get_2000", "get_2001"]


def test_include_and_exclude() -> None:
    paths = {"/a": {"get": {"operationId": "readA"}, "post": {}}, "/b": {"get": {}}}
    document = Document(described(paths=paths))
    assert list(read_operations(document, ["read*"]).by_name) == ["readA"]
    assert list(read_operations(document, ["GET *"]).by_name) == ["readA", "get_b"]
    assert list(read_operations(document, (), ["GET /a", "post_*"]).by_name) == ["get_b"]


def sent_to(value: str) -> str:
    """Where an operation with `value` in its path is sent."""
    paths = {"/u/{id}/x": {"get": {"parameters": [{"name": "id", "in": "path", "schema": {}}]}}}
    (operation,) = read_operations(Document(described(paths=paths))).by_name.values()
    return request_for(operation, {"id": value}).target


LEAVING = (
    "",
    ".",
    "..",
    "%2e%2e",
    "%252E%252e",
    "../..",
    "a/../../b",
    "..;/..;x",
    "..%2Fb",
    "..%252f..%252fb",
    "..\\b",
    "a%5C..%5Cb",
    "a/./b",
)


@pytest.mark.parametrize("value", LEAVING)
def test_no_value_leaves_its_path(value: str) -> None:
    with pytest.raises(BadArguments, match="path parameter"):
        sent_to(value)


@pytest.mark.parametrize("value", ["1", "1.2", "...", "a..b", ".git", "src/a.py", "a\\b", "100%"])
def test_values_that_stay_in_their_path_are_sent(value: str) -> None:
    assert sent_to(value) == f"/u/{quote(value, safe='')}/x"


def test_an_answer_that_says_json_and_is_none() -> None:
    result = result_of(200, {"Content-Type": "application/json"}, b"<p>")
    assert result == {"content": [{"type": "text", "text": "<p>"}], "isError": False}
    assert bytes(result_of(200, {}, b"[1]")["structuredContent"]) == b'{"result":[1]}'
    blob = result_of(200, {"Content-Type": "application/zip"}, b"PK")["content"][0]["resource"]
    assert blob["blob"] == "UEs="


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", b"K\xe4se", "Käse"),
        ('text/csv;header=present; charset="Windows-1252"', b"\x80 1", "\u20ac 1"),
        ("text/html;charset=Shift_JIS", "日付".encode("shift_jis"), "日付"),
        ("text/plain; charset=UTF-16LE", "Käse".encode("utf-16-le"), "Käse"),
        ("text/plain; charset=utf-8", "Käse".encode(), "Käse"),
        ("text/plain; charset=punycode", b"a-b", "a-b"),
        ("text/plain; charset=iso-8859-99", b"K\xe4se", "K\ufffdse"),
        ("text/plain", b"K\xe4se", "K\ufffdse"),
        ("application/json; charset=iso-8859-1", '"Käse"'.encode(), '"Käse"'),
    ],
)
def test_an_answer_is_read_in_its_charset(kind: str, body: bytes, text: str) -> None:
    assert result_of(200, {"Content-Type": kind}, body)["content"][0]["text"] == text


def test_the_next_page_is_told_whatever_its_url_holds() -> None:
    link = '<https://x/?f=a,b&p=1>; rel="prev", <https://x/?f=a,b&p=3>; title="a, b"; rel="next"'
    for given, told in ((link, "f=a,b&p=3"), ("<https://x/?p=2>;rel=next,<https://x/>", "p=2")):
        found = result_of(200, {"Content-Type": "text/plain", "Link": given}, b"x")
        assert found["content"][1]["text"] == f"The next page has the parameters {told}"


def test_headers_of_the_connection_are_not_for_callers() -> None:
    def described_with(name: str) -> dict[str, Any]:
        parameters = [{"name": name, "in": "header", "schema": {}}]
        return described(paths={"/a": {"get": {"parameters": parameters}}})

    for name in ("Host", "transfer-encoding", "Content-Length", "Authorization", "Accept-Encoding"):
        (operation,) = read_operations(Document(described_with(name))).by_name.values()
        assert operation.parameters == ()
    found = read_operations(Document(described_with("X\r\nY")))
    assert found.left_out == [("get_a", "no header can be called 'X\\r\\nY'")]
