"""Results and errors in the shape of the client's era."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from armory.protocol import jsonrpc
from armory.protocol import meta as meta_keys
from armory.protocol.link import Reply
from armory.protocol.rawjson import pack
from armory.protocol.scanning.taking_apart import MOST_MEMBERS
from armory.protocol.versions import Era
from armory.wire.eras.results import shape
from armory.wire.methods import METHODS

INFO = {"name": "armory", "version": "1"}
PACKED = pack(INFO)
VERSION = "2026-07-28"


def shaped(
    result: dict[str, Any], era: Era | None, to: Era, method: str = "tools/call", **more: Any
) -> Any:
    reply = Reply(result=Raw(msgspec.json.encode(result)), era=era)
    cacheable = METHODS[method].cacheable
    out = shape(reply, method, to, PACKED, cacheable=cacheable, **more).result
    assert out is not None
    return msgspec.json.decode(out)


def shaped_error(
    error: dict[str, Any], era: Era | None, to: Era, method: str = "tools/call"
) -> Any:
    reply = Reply(error=Raw(msgspec.json.encode(error)), era=era)
    out = shape(reply, method, to, PACKED).error
    assert out is not None
    return msgspec.json.decode(out)


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


@pytest.mark.parametrize("kind", ["weird", "task", "input_required", None, 5])
def test_results_that_are_not_complete_are_none_for_legacy_clients(kind: object) -> None:
    result = Raw(msgspec.json.encode({"resultType": kind, "content": []}))
    reply = shape(Reply(result, era="modern"), "tools/call", "legacy", PACKED)
    assert reply.result is None
    assert reply.error is not None
    assert jsonrpc.code_of(reply.error) == -32603


def test_results_within_one_era_are_the_same_bytes() -> None:
    raw = Raw(b'{ "content" : [ 1.50 ] }')
    reply = Reply(result=raw, era="legacy")
    assert shape(reply, "tools/call", "legacy", PACKED) is reply
    modern = Reply(result=raw, era="modern")
    assert shape(modern, "tools/call", "modern", PACKED, transparent=True) is modern
    odd = Reply(result=Raw(b"3"), era="legacy")
    assert shape(odd, "tools/call", "modern", PACKED).result == Raw(b"3")
    assert shape(Reply(Raw(b"3"), era="modern"), "x", "legacy", PACKED).result == Raw(b"3")


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
def test_an_error_has_the_code_of_the_clients_era(
    code: int, era: Era, to: Era, method: str, expected: int
) -> None:
    error = {"code": code, "message": "m", "data": {"uri": "u"}}
    assert shaped_error(error, era, to, method) == {**error, "code": expected}


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
    answer = shape(reply, "tools/call", "modern", PACKED).result
    assert answer is not None
    got = json.loads(bytes(memoryview(answer)))
    expected = json.loads(sent)
    expected.setdefault("resultType", "complete")
    expected.setdefault("_meta", {})[meta_keys.SERVER_INFO] = INFO
    assert got == expected


@pytest.mark.parametrize("end", ['"}', '","resultType":"complete"}'])
def test_a_large_result_is_completed_without_being_copied(end: str) -> None:
    raw = Raw(('{"content":[],"x":"' + "y" * 50_000 + end).encode())
    done = shape(Reply(raw, era="legacy"), "tools/call", "modern", PACKED)
    assert done.result is raw
    whole = msgspec.json.decode(b"".join(done.parts))
    small = msgspec.json.decode(bytes(memoryview(raw)))
    assert whole == {
        **small,
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    }


def test_a_meta_that_is_too_wide_to_be_opened_says_who_answers_all_the_same() -> None:
    many = {f"k{number}": "y" * 200 for number in range(MOST_MEMBERS + 1)}
    meta = {**many, meta_keys.SERVER_INFO: {"name": "somebody else"}}
    raw = Raw(msgspec.json.encode({"content": [], "_meta": meta}))
    done = shape(Reply(raw, era="modern"), "tools/call", "modern", PACKED)
    whole = msgspec.json.decode(b"".join(done.parts))
    assert whole["_meta"] == {**many, meta_keys.SERVER_INFO: INFO}


@pytest.mark.parametrize("inside", ['"_meta":{"a":1},', '"resultType":"input_required",'])
def test_a_large_result_that_has_its_own_is_opened(inside: str) -> None:
    raw = Raw(("{" + inside + '"x":"' + "y" * 50_000 + '"}').encode())
    done = shape(Reply(raw, era="modern"), "tools/call", "modern", PACKED)
    whole = msgspec.json.decode(b"".join(done.parts))
    assert whole["_meta"]["io.modelcontextprotocol/serverInfo"] == INFO
    assert whole["x"] == "y" * 50_000
    assert whole["resultType"] == ("input_required" if "input" in inside else "complete")
