"""Everything that differs between revisions."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from multidict import CIMultiDict

from armory.protocol import meta as meta_keys
from armory.protocol.link import Reply
from armory.protocol.versions import Era
from armory.wire.eras import ladder as eras

INFO = {"name": "armory", "version": "1"}
VERSION = "2026-07-28"


def raws(value: dict[str, Any]) -> dict[str, Raw]:
    return {key: Raw(msgspec.json.encode(item)) for key, item in value.items()}


def shaped(
    result: dict[str, Any], era: Era | None, to: Era, method: str = "tools/call", **more: Any
) -> Any:
    reply = Reply(result=Raw(msgspec.json.encode(result)), era=era)
    out = eras.shape(reply, method, to, INFO, **more).result
    assert out is not None
    return msgspec.json.decode(out)


def shaped_error(
    error: dict[str, Any], era: Era | None, to: Era, method: str = "tools/call"
) -> Any:
    reply = Reply(error=Raw(msgspec.json.encode(error)), era=era)
    out = eras.shape(reply, method, to, INFO).error
    assert out is not None
    return msgspec.json.decode(out)


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
def test_which_era(header: str | None, key: bool, method: str, modern: bool) -> None:
    meta = {meta_keys.PROTOCOL_VERSION: Raw(b'"x"')} if key else {}
    assert eras.is_modern(header, meta, method) is modern


def test_negotiation() -> None:
    assert eras.negotiated("2024-11-05") == "2024-11-05"
    assert eras.negotiated(VERSION) == "2025-11-25"
    assert eras.negotiated("nonsense") == "2025-11-25"


# -- the ladder ----------------------------------------------------------------------------------


def climb(
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
    found = eras.refusal(
        method,
        version if isinstance(version, str) else None,
        body,
        raws(stamped),
        sent if http else None,
        sent.items(),
    )
    return None if found is None else found.code


def test_the_ladder_holds() -> None:
    assert climb() is None
    assert climb(http=False) is None
    assert climb("tools/list") is None
    assert climb("nope/nope") is None


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
def test_the_ladder_breaks(changes: dict[str, Any], code: int) -> None:
    assert climb(**changes) == code


def test_encoded_names_and_task_names() -> None:
    assert climb(params={"name": "é"}, headers={"mcp-name": "=?base64?w6k=?="}) is None
    assert climb("tasks/get", {"taskId": "s:1"}, headers={"mcp-name": "s:1"}) is None
    assert climb("tasks/get", {"taskId": "s:1"}, headers={"mcp-name": "s:2"}) == -32020
    assert climb("tasks/get", {"taskId": "é"}, headers={"mcp-name": "=?base64?w6k=?="}) is None


def test_duplicates() -> None:
    headers = CIMultiDict([("Mcp-Method", "tools/list"), ("Mcp-Method", "tools/list")])
    found = eras.refusal("tools/list", VERSION, {}, {}, headers, headers.items())
    assert found is not None
    assert found.code == -32020


def test_mirrored_parameters() -> None:
    schema = {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}
    params = raws({"arguments": {"n": 42}})
    assert eras.param_refusal(schema, params, {"Mcp-Param-N": "42.0"}) is None
    assert eras.param_refusal(schema, params, {}) is not None
    assert eras.param_refusal(schema, {}, {"Mcp-Param-N": "1"}) is not None
    assert eras.param_refusal(schema, raws({"arguments": None}), {}) is None


# -- _meta ---------------------------------------------------------------------------------------


def test_only_vendor_and_trace_keys_pass() -> None:
    meta = raws(
        {
            meta_keys.PROTOCOL_VERSION: VERSION,
            meta_keys.CLIENT_INFO: {},
            "progressToken": 1,
            "traceparent": "00",
            "com.example/x": 2,
            "dev.armory/query": "q",
            "io.modelcontextprotocol/related-task": {"taskId": "t"},
        }
    )
    params = {"name": Raw(b'"x"'), "_meta": Raw(b"{}")}
    passed = eras.with_passed_meta(dict(params), meta, transparent=False)
    assert set(msgspec.json.decode(passed["_meta"])) == {
        "traceparent",
        "com.example/x",
        "io.modelcontextprotocol/related-task",
    }
    kept = eras.with_passed_meta(dict(params), meta, transparent=True)
    assert "dev.armory/query" in msgspec.json.decode(kept["_meta"])
    alone = eras.with_passed_meta(dict(params), raws({"progressToken": 1}), transparent=False)
    assert "_meta" not in alone
    assert eras.with_passed_meta({}, meta, transparent=True) == {}


# -- results -------------------------------------------------------------------------------------


def test_legacy_results_for_modern_clients() -> None:
    got = shaped({"content": [], "x": 1.5}, "legacy", "modern")
    assert got == {
        "content": [],
        "x": 1.5,
        "resultType": "complete",
        "_meta": {meta_keys.SERVER_INFO: INFO},
    }
    read = shaped({"contents": []}, "legacy", "modern", "resources/read")
    assert (read["ttlMs"], read["cacheScope"]) == (0, "private")


def test_modern_results_for_modern_clients() -> None:
    result = {
        "resultType": "complete",
        "ttlMs": 5,
        "cacheScope": "public",
        "contents": [],
        "_meta": {meta_keys.SERVER_INFO: {"name": "up"}, "a/b": 1},
    }
    assert shaped(result, "modern", "modern", "resources/read", transparent=True) == result
    got = shaped(result, "modern", "modern", "resources/read")
    assert got["_meta"] == {meta_keys.SERVER_INFO: INFO, "a/b": 1}
    assert got["ttlMs"] == 5
    asked = shaped({"resultType": "input_required"}, "modern", "modern", "resources/read")
    assert "ttlMs" not in asked


def test_modern_results_for_legacy_clients() -> None:
    result = {
        "resultType": "complete",
        "ttlMs": 5,
        "cacheScope": "public",
        "content": [],
        "structuredContent": [1],
        "_meta": {meta_keys.SERVER_INFO: {"name": "up"}},
    }
    assert shaped(result, "modern", "legacy") == {"content": []}
    kept = {**result, "structuredContent": {"a": 1}, "_meta": {"a/b": 1}}
    assert shaped(kept, "modern", "legacy") == {
        "content": [],
        "structuredContent": {"a": 1},
        "_meta": {"a/b": 1},
    }
    both = {**result, "_meta": {meta_keys.SERVER_INFO: {}, "a/b": 1}}
    assert shaped(both, "modern", "legacy")["_meta"] == {"a/b": 1}


def test_results_within_one_era_are_the_same_bytes() -> None:
    raw = Raw(b'{ "content" : [ 1.50 ] }')
    reply = Reply(result=raw, era="legacy")
    assert eras.shape(reply, "tools/call", "legacy", INFO) is reply
    modern = Reply(result=raw, era="modern")
    assert eras.shape(modern, "tools/call", "modern", INFO, transparent=True) is modern
    odd = Reply(result=Raw(b"3"), era="legacy")
    assert eras.shape(odd, "tools/call", "modern", INFO).result == Raw(b"3")
    assert eras.shape(Reply(Raw(b"3"), era="modern"), "x", "legacy", INFO).result == Raw(b"3")


@pytest.mark.parametrize(
    ("code", "era", "to", "method", "expected"),
    [
        (-32002, "legacy", "modern", "resources/read", -32602),
        (-32042, "legacy", "modern", "tools/call", -32603),
        (-32602, "modern", "legacy", "resources/read", -32002),
        (-32602, "modern", "legacy", "tools/call", -32602),
        (-32002, "legacy", "legacy", "resources/read", -32002),
        (-32602, "legacy", "legacy", "resources/read", -32602),
        (-32021, "modern", "modern", "tools/call", -32021),
        (7, "legacy", "modern", "tools/call", 7),
    ],
)
def test_errors(code: int, era: Era, to: Era, method: str, expected: int) -> None:
    error = {"code": code, "message": "m", "data": {"uri": "u"}}
    assert shaped_error(error, era, to, method) == {**error, "code": expected}


# -- handshakes and questions ----------------------------------------------------------------------


def test_handshake_answers() -> None:
    described = {"capabilities": {"tools": {}}, "serverInfo": INFO, "instructions": ""}
    assert msgspec.json.decode(eras.initialize_result("2025-06-18", described)) == {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": INFO,
    }
    told = {**described, "instructions": "do"}
    assert msgspec.json.decode(eras.initialize_result("x", told))["instructions"] == "do"
    discovered = msgspec.json.decode(eras.discover_result(told))
    assert discovered["resultType"] == "complete"
    assert discovered["supportedVersions"] == [VERSION]
    assert "instructions" not in msgspec.json.decode(eras.discover_result(described))


def test_declared_capabilities() -> None:
    assert eras.capabilities_of(None) == {}
    assert eras.capabilities_of(Raw(b"3")) == {}
    assert eras.capabilities_of(Raw(b"{")) == {}
    assert eras.capabilities_of(Raw(b'{"roots":{}}')) == {"roots": {}}


@pytest.mark.parametrize(
    ("method", "params", "capabilities", "era", "version", "may"),
    [
        ("ping", {}, {}, "legacy", "2025-06-18", True),
        ("ping", {}, {}, "modern", VERSION, False),
        ("nope", {}, {"roots": {}}, "legacy", "2025-06-18", False),
        ("roots/list", {}, {"roots": {}}, "legacy", "2025-06-18", True),
        ("roots/list", {}, {}, "legacy", "2025-06-18", False),
        ("elicitation/create", {}, {"elicitation": {}}, "legacy", "2025-06-18", True),
        ("elicitation/create", {}, {"elicitation": {"url": {}}}, "legacy", "2025-11-25", False),
        ("elicitation/create", {}, {"elicitation": {"form": {}, "url": {}}}, "modern", "", True),
        ("elicitation/create", {"mode": "url"}, {"elicitation": {}}, "modern", VERSION, False),
        ("elicitation/create", {"mode": "url"}, {"elicitation": {"url": {}}}, "modern", "", True),
        (
            "elicitation/create",
            {"mode": "url"},
            {"elicitation": {"url": {}}},
            "legacy",
            "2025-06-18",
            False,
        ),
        (
            "elicitation/create",
            {"mode": "url"},
            {"elicitation": {"url": {}}},
            "legacy",
            "2025-11-25",
            True,
        ),
        ("elicitation/create", {}, {"elicitation": 3}, "modern", VERSION, True),
    ],
)
def test_who_may_be_asked(
    method: str,
    params: dict[str, Any],
    capabilities: dict[str, Any],
    era: Era,
    version: str,
    may: bool,
) -> None:
    assert eras.may_ask(method, raws(params), capabilities, era, version) is may


@pytest.mark.parametrize(
    "sent",
    [
        '{"content":[]}',
        '{"content":[],"resultType":"complete"}',
        '{"resultType":"complete","content":[],"x":{"y":[1,2.50]}}',
        '{"content":[{"type":"text","text":"\\"resultType\\":\\"complete\\""}]}',
        '{"content":[{"resultType":"complete"}]}',
        '{"content":[],"x":{"resultType":"complete"}}',
        '{"content":[{"type":"text","text":"t","_meta":{"a":1}}]}',
        '{"content":[],"_meta":{"a":1},"resultType":"complete"}',
        '{"content":[],"resultType":"input_required"}',
        "{}",
        '{ "content" : [] }',
    ],
)
def test_a_result_for_a_modern_client_keeps_all_and_gains_what_it_lacks(sent: str) -> None:
    reply = Reply(result=Raw(sent.encode()), era="legacy")
    answer = eras.shape(reply, "tools/call", "modern", INFO).result
    assert answer is not None
    got = json.loads(bytes(memoryview(answer)))
    expected = json.loads(sent)
    expected.setdefault("resultType", "complete")
    expected.setdefault("_meta", {})[meta_keys.SERVER_INFO] = INFO
    assert got == expected


@pytest.mark.parametrize("end", ['"}', '","resultType":"complete"}'])
def test_a_large_result_is_completed_without_being_copied(end: str) -> None:
    raw = Raw(('{"content":[],"x":"' + "y" * 50_000 + end).encode())
    done = eras.shape(Reply(raw, era="legacy"), "tools/call", "modern", INFO)
    assert done.result is raw
    whole = msgspec.json.decode(b"".join(done.parts))
    small = msgspec.json.decode(bytes(memoryview(raw)))
    assert whole == {
        **small,
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    }


@pytest.mark.parametrize("inside", ['"_meta":{"a":1},', '"resultType":"input_required",'])
def test_a_large_result_that_has_its_own_is_opened(inside: str) -> None:
    raw = Raw(("{" + inside + '"x":"' + "y" * 50_000 + '"}').encode())
    done = eras.shape(Reply(raw, era="modern"), "tools/call", "modern", INFO)
    whole = msgspec.json.decode(b"".join(done.parts))
    assert whole["_meta"]["io.modelcontextprotocol/serverInfo"] == INFO
    assert whole["x"] == "y" * 50_000
    assert whole["resultType"] == ("input_required" if "input" in inside else "complete")
