"""Descriptions of APIs in which little text means very much, by reference or by alias."""

from __future__ import annotations

import asyncio
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armory.errors import UpstreamUnavailable
from armory.openapi import references
from armory.openapi.document import BadDescription, Document, read_document
from armory.openapi.names import tool_name
from armory.openapi.operations import MAX_OPERATIONS, MAX_PATHS, read_operations
from armory.openapi.schemas import MAX_CHARS
from armory.threads import SHORT_S
from armory.upstreams.connecting.describing import Description
from armory.upstreams.spec import UpstreamSpec

MIB = 1 << 20


def described(paths: dict[str, Any], **more: Any) -> Document:
    return Document({"openapi": "3.1.0", "paths": paths, **more})


def taking(schema: Any) -> dict[str, Any]:
    return {"get": {"parameters": [{"name": "a", "in": "query", "schema": schema}]}}


class Counted(list[Any]):
    """A list that counts how much of it was looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            Counted.looked_at += 1
            yield each


@pytest.mark.parametrize("says", [{"openapi": "3.1.0"}, {"swagger": "2.0", "host": "a.example"}])
def test_many_paths_that_share_many_parameters(says: dict[str, Any]) -> None:
    Counted.looked_at = 0
    shared = Counted({"name": f"p{n}", "in": "query", "type": "string"} for n in range(400))
    paths = {f"/{n}": {"$ref": "#/shared"} for n in range(400)}
    content = {**says, "paths": paths, "shared": {"parameters": shared, "get": {}}}
    tracemalloc.start()
    try:
        found = read_operations(Document(content))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not found.by_name
    assert all("more than 200 parameters" in why for _, why in found.left_out)
    assert Counted.looked_at <= 400
    assert peak < 8 * MIB


def test_a_large_schema_that_every_operation_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MAX_STEPS", 100_000)
    paths = {f"/{n}": taking({"$ref": "#/large"}) for n in range(1_000)}
    found = read_operations(described(paths, large={"enum": ["x" * 9] * 1_000}))
    assert 0 < len(found.by_name) < 100
    assert found.left_out[-1][1] == "the description takes too long to read"


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["x" * 99] * 6_000},
        {"default": {f"{'x' * 99}{n}": {} for n in range(6_000)}},
        {"properties": {f"{'x' * 99}{n}": {} for n in range(6_000)}},
        {"allOf": [{"title": "x" * 999}] * 1_400},
        {"type": ["string"] * 100_000},
    ],
)
def test_a_definition_larger_than_any_may_be(schema: Any) -> None:
    found = read_operations(described({"/a": taking(schema), "/b": {"get": {}}}))
    assert list(found.by_name) == ["get_b"]
    assert found.left_out == [("get_a", f"its definition has more than {MAX_CHARS:,} characters")]


def test_a_long_reference_costs_what_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MAX_STEPS", 100_000)
    long = {"$ref": f"#/{'a/' * 50_000}"}
    paths = {f"/{n}": {"$ref": "#/shared"} for n in range(100)}
    found = read_operations(described(paths, shared={"parameters": [long] * 100, "get": {}}))
    assert found.left_out[-1][1] == "the description takes too long to read"


def test_patterns_that_take_long_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MAX_STEPS", 100_000)
    paths = {f"/{n}": taking({"pattern": f"{n}[\\u0100-\\uffff]"}) for n in range(100)}
    found = read_operations(described(paths))
    assert 10 < len(found.by_name) < 30
    assert found.left_out[-1][1] == "the description takes too long to read"


def test_texts_and_servers_that_every_operation_shares_are_cut() -> None:
    server = {"url": "{a}" * 600, "variables": {"a": {"default": "x" * MIB}}}
    shared = {"summary": " x" * MIB, "get": {"description": " x" * MIB}}
    document = described({"/a": {"$ref": "#/shared"}}, shared=shared, servers=[server])
    assert len(document.place) < 2 * MIB
    (operation,) = read_operations(document).by_name.values()
    assert len(operation.tool["description"]) <= 2_000


def test_names_that_collide_are_not_tried_from_the_beginning() -> None:
    paths = {f"/{'!' * n}": {"get": {}} for n in range(1, 1_200)}
    asked = 0

    class Asked(dict[str, int]):
        def get(self, key: str, default: int = 0, /) -> int:  # type: ignore[override]
            nonlocal asked
            asked += 1
            return super().get(key, default)

    taken, numbers = dict[str, None](), Asked()
    for path in paths:
        taken[tool_name("get", path, None, taken, numbers)] = None
    assert len(taken) == len(paths)
    assert asked < 2 * len(paths)


def test_of_very_many_paths_some_are_looked_at() -> None:
    found = read_operations(described({f"/{n}": {"get": 3} for n in range(MAX_PATHS + 10)}))
    assert len(found.left_out) == MAX_PATHS + 1
    assert MAX_OPERATIONS < MAX_PATHS


def merging(mappings: int) -> bytes:
    lines = ["openapi: 3.1.0", "a0: &a0 {k0: 1}"]
    lines += [f"a{n}: &a{n} {{<<: *a{n - 1}, k{n}: 1}}" for n in range(1, mappings)]
    return "\n".join(lines).encode()


def test_mappings_that_are_merged_into_each_other() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadDescription, match="multiply"):
            read_document(merging(2_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * MIB


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"openapi: 3.1.0\na: &a [*a]", "multiply"),
        (b"openapi: 3.1.0\na: 0x" + b"f" * 10_000, "a number of 40,000 bits"),
        (b"openapi: 3.1.0\nservers: [{url: 'http://['}]", "no URL"),
        (b"swagger: '2.0'\nhost: '['", "no URL"),
    ],
)
def test_what_cannot_be_read_at_all_says_why(text: bytes, why: str) -> None:
    with pytest.raises(BadDescription, match=why):
        read_document(text).base_url(None)


def test_members_that_are_required_by_a_flag_cost_nothing() -> None:
    schema = {"type": "object", "properties": {"b": {}}, "required": True}
    (operation,) = read_operations(described({"/a": taking(schema)})).by_name.values()
    assert "required" not in operation.tool["inputSchema"]["properties"]["a"]


def test_a_list_of_swagger_that_is_written_strangely_costs_nothing() -> None:
    parameter = {"name": "a", "in": "query", "type": "array", "collectionFormat": ["x"]}
    paths = {"/a": {"get": {"parameters": [parameter]}}, "/b": {"get": {}}}
    content = {"swagger": "2.0", "host": "a.example", "paths": paths}
    assert list(read_operations(Document(content)).by_name) == ["get_a", "get_b"]


@pytest.mark.anyio
async def test_a_long_description_is_read_behind_the_event_loop(tmp_path: Path) -> None:
    """Read as work on catalogs is: the interpreter goes back to the event loop at once."""
    usual = sys.getswitchinterval()
    paths = (f"  /p{n}:\n    get: {{summary: the thing of that number}}\n" for n in range(1_500))
    text = "openapi: 3.1.0\nservers: [{url: 'https://a.example'}]\npaths:\n" + "".join(paths)
    place = tmp_path / "api.yaml"
    place.write_text(text, encoding="utf-8")
    reading = asyncio.create_task(
        Description(UpstreamSpec("api", openapi=str(place))).read(fresh=True)
    )
    intervals = set[float]()
    async with asyncio.timeout(30):
        while not reading.done():
            intervals.add(round(sys.getswitchinterval(), 6))
            await asyncio.sleep(0.001)
    assert len((await reading).operations.by_name) == 1_500
    assert SHORT_S in intervals
    assert sys.getswitchinterval() == usual


@pytest.mark.anyio
async def test_a_description_that_does_not_end_is_given_up_with_a_reason() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        await reader.read()  # until the gateway hangs up
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        place = f"http://{host}:{port}/openapi.json"
        description = Description(UpstreamSpec("up", openapi=place, connect_timeout_s=0.2))
        with pytest.raises(UpstreamUnavailable, match=r"it did not end within 0\.2 s"):
            await description.read(fresh=True)
