"""Which era a message is in, and what is wrong with a modern one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw
from multidict import CIMultiDict

from armory.gateway.calls.mirrored import mirrored_headers
from armory.protocol import meta as meta_keys
from armory.protocol.headers import declared_headers
from armory.testing.front import raws
from armory.wire.eras.inbound import is_modern, refusal
from armory.wire.eras.mismatch import param_refusal
from armory.wire.methods import named_parameter

INFO = {"name": "armory", "version": "1"}
VERSION = "2026-07-28"


@pytest.mark.parametrize(
    ("header", "key", "method", "modern"),
    [
        (None, False, "tools/list", False),
        ("2025-06-18", False, "tools/list", False),
        (VERSION, False, "tools/list", True),
        ("2031-01-01", False, "tools/list", True),
        (None, True, "tools/list", True),
        ("2025-06-18", True, "tools/list", True),
        (None, False, "initialize", False),
        (VERSION, False, "initialize", True),
        (None, True, "initialize", True),
    ],
)
def test_the_era_is_told_by_header_meta_and_method(
    header: str | None, key: bool, method: str, modern: bool
) -> None:
    meta = {meta_keys.PROTOCOL_VERSION: Raw(b'"x"')} if key else {}
    assert is_modern(header, meta, method) is modern


def checked(
    method: str = "tools/call",
    params: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    *,
    http: bool = True,
) -> int | None:
    stamped: dict[str, Any] = {
        meta_keys.PROTOCOL_VERSION: VERSION,
        meta_keys.CLIENT_CAPABILITIES: {},
        **(meta or {}),
    }
    body = raws({"name": "x", **(params or {}), "_meta": stamped})
    version = stamped[meta_keys.PROTOCOL_VERSION]
    sent = CIMultiDict(
        {"mcp-protocol-version": VERSION, "mcp-method": method, "mcp-name": "x", **(headers or {})}
    )
    found = refusal(
        method,
        version if isinstance(version, str) else None,
        body,
        raws(stamped),
        named_parameter(method),
        sent if http else None,
    )
    return None if found is None else found.code


def test_nothing_is_wrong() -> None:
    assert checked() is None
    assert checked(http=False) is None
    assert checked("tools/list") is None
    assert checked("nope/nope") is None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"headers": {"mcp-method": "tools/list"}}, -32020),
        ({"headers": {"mcp-name": "y"}}, -32020),
        ({"headers": {"mcp-protocol-version": "2025-11-25"}}, -32020),
        ({"meta": {meta_keys.CLIENT_CAPABILITIES: 3}}, -32602),
        ({"meta": {meta_keys.PROTOCOL_VERSION: 3}}, -32020),
        ({"meta": {meta_keys.PROTOCOL_VERSION: 3}, "http": False}, -32602),
        ({"meta": {meta_keys.PROTOCOL_VERSION: "2031-01-01"}, "http": False}, -32022),
    ],
)
def test_what_is_wrong(changes: dict[str, Any], code: int) -> None:
    assert checked(**changes) == code


def test_encoded_names_and_task_names() -> None:
    assert checked(params={"name": "é"}, headers={"mcp-name": "=?base64?w6k=?="}) is None
    assert checked("tasks/get", {"taskId": "s:1"}, headers={"mcp-name": "s:1"}) is None
    assert checked("tasks/get", {"taskId": "s:1"}, headers={"mcp-name": "s:2"}) == -32020
    assert checked("tasks/get", {"taskId": "é"}, headers={"mcp-name": "=?base64?w6k=?="}) is None


def test_a_header_that_comes_twice_is_refused() -> None:
    headers = CIMultiDict([("Mcp-Method", "tools/list"), ("Mcp-Method", "tools/list")])
    found = refusal("tools/list", VERSION, {}, {}, None, headers)
    assert found is not None
    assert found.code == -32020


def test_mirrored_parameters() -> None:
    schema = {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}
    params = raws({"arguments": {"n": 42}})
    assert param_refusal(schema, params, {"Mcp-Param-N": "42.0"}) is None
    assert param_refusal(schema, params, {}) is not None
    assert param_refusal(schema, {}, {"Mcp-Param-N": "1"}) is not None
    assert param_refusal(schema, raws({"arguments": None}), {}) is None


def test_mirrored_parameters_among_very_many() -> None:
    schema = {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}
    many = {f"k{number}": "x" * 200 for number in range(600)}
    params = raws({"arguments": {**many, "n": 42}})
    assert param_refusal(schema, params, {"Mcp-Param-N": "42"}) is None
    assert param_refusal(schema, params, {"Mcp-Param-N": "43"}) is not None
    assert param_refusal(schema, params, {}) is not None
    declared = declared_headers(schema)
    assert mirrored_headers(declared, params) == {"Mcp-Param-N": "42"}
