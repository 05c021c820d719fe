from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import decode_header_value
from msgspec import Raw

from armory.protocol.headers import header_value
from armory.protocol.messages import (
    EMPTY,
    Cut,
    Garbage,
    MetaStamp,
    decode,
    error_of,
    legacy_meta,
    object_of,
    params_of,
    profile,
    request_bytes,
)

INFO = {"name": "armory", "version": "1"}
PREFIX = "io.modelcontextprotocol/"


def test_a_request_keeps_values_as_they_are() -> None:
    sent = request_bytes(7, "tools/call", {"name": Raw(b'"a"'), "arguments": Raw(b'{"x":1.50}')})
    assert sent == (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call",'
        b'"params":{"name":"a","arguments":{"x":1.50}}}'
    )


def test_an_envelope_keeps_its_values_as_bytes() -> None:
    (message,) = decode(b'{"jsonrpc":"2.0","id":3,"result":{"a": 1.50}}')
    assert (message.id, bytes(message.result), message.error) == (3, b'{"a": 1.50}', EMPTY)
    assert params_of(message) == {}


def test_a_batch() -> None:
    first, second = decode(b' [{"id":1,"result":{}},{"method":"m","params":{"a":[1]}}]')
    assert (first.id, second.method, bytes(params_of(second)["a"])) == (1, "m", b"[1]")


@pytest.mark.parametrize(
    "data",
    [b"", b"nonsense", b"3", b'{"id":', b"[1]", b'{"id":true}', b"\xff\xfe", b'{"method":3}'],
)
def test_garbage(data: bytes) -> None:
    with pytest.raises(Garbage, match="not a JSON-RPC message"):
        decode(data)


def test_deep_nesting_is_cut_and_known_to_be() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    (message,) = decode(b'{"id":1,"result":{"a":' + deep + b',"b":"\\udc00"}}')
    assert isinstance(message, Cut)
    assert object_of(message.result)["b"] == "\ufffd"
    with pytest.raises(Garbage):
        decode(b'{"id":1,"result":' + b"[" * 100_000)


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    (message,) = decode(b'{"id":1,"result":{"a\\ud800":["\\udc00x", 1]}}')
    assert object_of(message.result) == {"a\ufffd": ["\ufffdx", 1]}


def test_bytes_that_are_no_text_do_not_travel_on() -> None:
    (message,) = decode(b'{"id":1,"result":{"a":"\xff\xc3\xbc"}}')
    assert object_of(message.result) == {"a": "\ufffd\u00fc"}


def test_params_that_are_no_object_are_none() -> None:
    assert params_of(decode(b'{"method":"m","params":[1]}')[0]) == {}


def test_errors_are_read_as_far_as_they_go() -> None:
    assert error_of(Raw(b'{"code":-1,"message":"m","data":{"a":1}}')).data == {"a": 1}
    assert error_of(Raw(b'"odd"')).code == -32603


def test_the_stamp_of_a_modern_request() -> None:
    stamp = MetaStamp("2026-07-28", INFO)
    own = {
        f"{PREFIX}protocolVersion": "2026-07-28",
        f"{PREFIX}clientInfo": INFO,
        f"{PREFIX}clientCapabilities": {},
    }
    assert json.loads(bytes(stamp.meta(None, None, None, None))) == own
    passed = Raw(b' { "com.example/a" : [1] } ')
    full = json.loads(bytes(stamp.meta(passed, {"sampling": {}}, "info", 9)))
    assert full == {
        **own,
        f"{PREFIX}clientCapabilities": {"sampling": {}},
        f"{PREFIX}logLevel": "info",
        "progressToken": 9,
        "com.example/a": [1],
    }
    assert json.loads(bytes(stamp.meta(Raw(b"{}"), {}, None, None))) == own


def test_the_stamp_of_a_legacy_request() -> None:
    assert legacy_meta(None, None) is None
    assert json.loads(bytes(legacy_meta(None, 4) or b"")) == {"progressToken": 4}
    assert json.loads(bytes(legacy_meta(Raw(b'{"a":1}'), 4) or b"")) == {
        "progressToken": 4,
        "a": 1,
    }
    assert legacy_meta(Raw(b'{"a":1}'), None) == Raw(b'{"a":1}')


def test_equal_capabilities_have_equal_profiles() -> None:
    assert profile({}) == "{}"
    assert profile({"a": {}, "b": {"x": 1, "y": 2}}) == profile({"b": {"y": 2, "x": 1}, "a": {}})
    assert profile({"a": {}}) != profile({"b": {}})


@given(st.text())
def test_header_values_survive(text: str) -> None:
    sent = header_value(text)
    assert sent.isascii()
    assert sent == sent.strip()
    assert "\n" not in sent
    assert decode_header_value(sent) == text
