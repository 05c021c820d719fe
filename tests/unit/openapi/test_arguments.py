"""The names of a tool's arguments: each its own, and such that models' providers take them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from armory.openapi.document import Document
from armory.openapi.operation import Operation
from armory.openapi.operations import read_operations
from armory.openapi.requests import request_for
from armory.openapi.styles import BadArguments
from tests.unit.openapi.test_descriptions import described


def parameter(name: str, place: str = "query", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {}, **more}


def taking(*parameters: dict[str, Any], path: str = "/x", **more: Any) -> Operation:
    paths = {path: {"post": {"parameters": list(parameters), **more}}}
    found = read_operations(Document(described(paths=paths)))
    assert found.left_out == []
    (operation,) = found.by_name.values()
    properties = operation.tool["inputSchema"]["properties"]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in properties)
    return operation


def test_a_name_that_no_provider_takes_is_changed_and_told() -> None:
    operation = taking(
        parameter("since<", description="No later than"),
        parameter("since>"),
        parameter("page[size]"),
        parameter("$top", required=True),
        parameter("größe/ü"),
        parameter("日付"),
        parameter("n" * 90),
        parameter("since"),
        parameter("X-Ok.9_", "header"),
    )
    schema = operation.tool["inputSchema"]
    assert list(schema["properties"]) == [
        *("since", "X-Ok.9_", "since_query", "since_query_2", "page_size", "top"),
        *("gr_e", "query", "n" * 64),
    ]
    assert schema["properties"]["since_query"] == {"description": "since<: No later than"}
    assert schema["properties"]["since_query_2"] == {"description": "since>"}
    assert schema["required"] == ["top"]
    sent = {"since": 1, "since_query": 2, "since_query_2": 3, "page_size": 4, "top": 5}
    target = request_for(operation, sent).target
    assert target == "/x?since=1&since%3C=2&since%3E=3&page%5Bsize%5D=4&%24top=5"


def test_no_argument_takes_the_place_of_another() -> None:
    operation = taking(
        parameter("id", "header"),
        parameter("id_path"),
        parameter("id", "path"),
        parameter("body"),
        parameter("request_body"),
        path="/x/{id}",
        requestBody={"content": {"application/json": {}}},
    )
    names = ["id", "id_path", "id_path_2", "body", "request_body", "request_body_content"]
    assert list(operation.tool["inputSchema"]["properties"]) == names
    request = request_for(operation, dict(zip(names, "abcdef", strict=True)))
    assert (request.target, request.headers["id"]) == ("/x/c?id_path=b&body=d&request_body=e", "a")
    assert request.body == b'"f"'


def test_long_names_of_operations_do_not_meet() -> None:
    paths = {f"/{end}": {"get": {"operationId": "x" * 128 + end}} for end in "ab"}
    found = read_operations(Document(described(paths=paths)))
    assert list(found.by_name) == ["x" * 128, "get_b"]
    assert [operation.path for operation in found.by_name.values()] == ["/a", "/b"]


@pytest.mark.parametrize("name", ["a; session", "a\r\nX-More", "ä", "a=b", ""])
def test_a_member_of_an_object_sets_no_other_cookie(name: str) -> None:
    operation = taking(parameter("c", "cookie"))
    with pytest.raises(BadArguments, match="'c' has a member whose name no cookie can have"):
        request_for(operation, {"c": {"fine": 1, name: 2}})
    assert request_for(operation, {"c": {"fine": 1}}).headers["Cookie"] == "fine=1"
