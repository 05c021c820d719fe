"""The envelope: ids and values stay the bytes that came."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from armory.protocol import jsonrpc
from armory.protocol.errors import Malformed
from armory.protocol.scanning.values import PIECE_BYTES, at_once

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@pytest.mark.parametrize("id", ["1", '"1"', "-7", '"a\\u00e9"', "12345678901234567890123"])
def test_ids_are_verbatim(id: str) -> None:
    message = jsonrpc.decode(f'{{"jsonrpc":"2.0","id": {id} ,"method":"m"}}'.encode())
    assert message.is_request
    assert message.key == id.encode()
    assert jsonrpc.response(message.key, b"{}") == (
        b'{"jsonrpc":"2.0","id":' + id.encode() + b',"result":{}}'
    )


def test_a_byte_order_mark_is_none_of_it() -> None:
    sent = '{"jsonrpc":"2.0","id":1,"method":"é"}'
    for body in (sent, sent + " " * 100_000):
        message = at_once(jsonrpc.decoding(b"\xef\xbb\xbf" + body.encode()))
        assert (message.key, message.method) == (b"1", "é")
    with pytest.raises(Malformed, match="not JSON"):
        jsonrpc.decode(b"\xef\xbb\xbf" * 100_000)


def test_half_a_character_is_replaced() -> None:
    """As `"\\ud83d"`, which JavaScript makes of a text that is cut inside an emoji."""
    sent = rb'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\ud83d","b":"\ud83d\ude00"%b}}'
    kept = {"a": Raw(rb'"\ufffd"'), "b": Raw(rb'"\ud83d\ude00"')}
    for more in (b"", b',"c":"%b"' % (b"x" * 100_000)):
        for mark in (b"", jsonrpc.BOM):
            body = mark + sent % more
            for message in (jsonrpc.decode(body), at_once(jsonrpc.decoding(body))):
                params = jsonrpc.params_of(message)
                assert {name: params[name] for name in kept} == kept
    with pytest.raises(Malformed, match="not JSON"):
        jsonrpc.decode(rb'{"a":"\ud83d"')


def test_requests_notifications_and_responses_are_told_apart() -> None:
    assert jsonrpc.decode(b'{"jsonrpc":"2.0","method":"m"}').is_notification
    response = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"result":{"a": 1.50}}')
    assert not response.is_request
    assert response.result == Raw(b'{"a": 1.50}')


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"", -32700, b"null"),
        (b"nope", -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m"', -32700, b"null"),
        (b"3", -32600, b"null"),
        (b"{}", -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":5,"method":7}', -32600, b"5"),
        (b'{"jsonrpc":"2.0","id":{},"method":"m"}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600, b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}', -32600, b"null"),
        (b'{"id":1,"method":"m"}', -32600, b"1"),
    ],
)
def test_a_malformed_message_is_refused_with_its_code_and_id(
    body: bytes, code: int, id: bytes
) -> None:
    with pytest.raises(Malformed) as caught:
        jsonrpc.decode(body)
    assert (caught.value.code, caught.value.id) == (code, id)


@pytest.mark.parametrize("id", [b"", b'"id":null,', b'"id" : null ,'])
def test_an_error_may_name_no_request(id: bytes) -> None:
    message = jsonrpc.decode(b'{"jsonrpc":"2.0",' + id + b'"error":{"code":1,"message":"x"}}')
    assert not message.is_request
    assert not message.is_notification
    for member in (b'"result":{}', b'"error":{},"method":"m"', b'"error":{},"result":{}'):
        with pytest.raises(Malformed):
            jsonrpc.decode(b'{"jsonrpc":"2.0","id":null,' + member + b"}")


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), JSON))
def test_random_objects_are_a_message_or_malformed(body: dict[str, Any]) -> None:
    try:
        message = jsonrpc.decode(msgspec.json.encode(body))
        if message.is_request:
            jsonrpc.params_of(message)
    except Malformed:
        return
    assert body["jsonrpc"] == "2.0"
    assert (message.is_request or message.is_notification) == ("method" in body)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_are_a_message_or_malformed(body: bytes) -> None:
    with suppress(Malformed):
        jsonrpc.decode(body)  # Hypothesis takes bytes of the tests, too, and those are messages


@pytest.mark.parametrize("id", ["9" * 4_097, '"' + "a" * 4_095 + '"', "9" * 3_000_000])
def test_a_long_id_is_refused_unread(id: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":{id},"method":"m"}}'.encode()
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match=r"id is .{80}; expected .* at most 4,096") as refused:
            jsonrpc.decode(body)
        copied = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.value.id == jsonrpc.NULL
    assert copied < 16_384  # neither the id nor what is said of it


@pytest.mark.parametrize("member", ["jsonrpc", "params"])
def test_what_is_said_of_a_long_value_is_cut_before_it_is_copied(member: str) -> None:
    value = b"[" + b"7," * 500_000 + b"7]"
    members = {b"jsonrpc": b'"2.0"', b"id": b"1", b"method": b'"m"', member.encode(): value}
    body = b"{" + b",".join(b'"%b":%b' % item for item in members.items()) + b"}"
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match=rf"{member} is \[7,7,.*\.\.\.; expected"):
            jsonrpc.params_of(jsonrpc.decode(body))
        copied = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert copied < 16_384


@pytest.mark.parametrize("version", ['"2.0"', '"2.\\u0030"', ' "\\u0032.0" '])
def test_a_version_is_known_however_it_is_spelled(version: str) -> None:
    assert jsonrpc.decode(f'{{"jsonrpc":{version},"id":1,"method":"m"}}'.encode()).is_request


@pytest.mark.parametrize("version", ["2", "null", '"2.0\\u0000"', '"2.0 "', '{"a":1}'])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(Malformed, match="jsonrpc is"):
        jsonrpc.decode(f'{{"jsonrpc":{version},"id":1,"method":"m"}}'.encode())


def test_params_must_be_an_object_and_stay_as_they_were_written() -> None:
    message = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": [1,2 ]}}')
    assert jsonrpc.params_of(message) == {"a": Raw(b"[1,2 ]")}
    for nothing in (b"null", b"[]", b"[ \t]"):
        body = b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % nothing
        assert jsonrpc.params_of(jsonrpc.decode(body)) == {}
    bad = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}')
    with pytest.raises(Malformed) as caught:
        jsonrpc.params_of(bad)
    assert (caught.value.code, caught.value.id) == (-32602, b"1")


def test_messages_are_written_with_what_they_have_alone() -> None:
    assert jsonrpc.notification("m", None) == b'{"jsonrpc":"2.0","method":"m"}'
    assert jsonrpc.notification("m", {}) == b'{"jsonrpc":"2.0","method":"m","params":{}}'
    assert jsonrpc.request(7, "m", {}) == b'{"jsonrpc":"2.0","id":7,"method":"m","params":{}}'
    assert msgspec.json.decode(jsonrpc.request("x", "m", {"a": Raw(b"1")})) == {
        "jsonrpc": "2.0",
        "id": "x",
        "method": "m",
        "params": {"a": 1},
    }
    error = jsonrpc.error(-1, "no", {"why": 1})
    assert msgspec.json.decode(jsonrpc.error_response(b"null", error)) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -1, "message": "no", "data": {"why": 1}},
    }


@pytest.mark.parametrize(
    ("head", "method"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":"xx', "tools/list"),
        (b'{ "method" : "ping" , "params" :', "ping"),
        (b'{"params":{"method":"a"', msgspec.UNSET),
        (b'{"method":"say \\"params\\" now","id":1', None),
        (b'{"method":"params","id":', None),
        (b'{"id":{"a":1},"method":"tools/list","params":{', None),
        (b'{"method":"a","id":{"params":1', None),
        (b'{"method":"a",' + b'"x":1,' * 200 + b'"params":{}', None),
        (b"[[[", None),
        (b"\xff\xfe", None),
    ],
)
def test_what_a_message_will_be_is_told_from_its_beginning(head: bytes, method: object) -> None:
    found = jsonrpc.opening_message(head)
    assert found is None if method is None else found is not None and found.method == method


@pytest.mark.parametrize(
    "rest",
    [
        '"id":"1","method":"m"', '"method":"m"', '"id":1,"result":{}', '"id":1,"error":{}',
        '"id":1,"method":7', '"id":{},"method":"m"', '"id":1', '"id":1,"method":"m","result":{}',
        '"id":1,"method":"m","params":[]', '"id":1,"method":"m","params":null', '"id":1,"x"',
        ",".join(f'"k{number}":0' for number in range(600)) + ',"id":1,"method":"m"',
    ],
)  # fmt: skip
@pytest.mark.parametrize("member", ["params", "result", "error", "more"])
def test_a_large_message_is_what_a_small_one_would_be(rest: str, member: str) -> None:
    long = f'{{"a":[{"[]," * 50_000}{{}}],"b":{{"c": 1.50}}}}'
    body = f'{{"jsonrpc": "2.0", "{member}": {long} , {rest}}}'.encode()

    told = _told(lambda: jsonrpc.decode(body), in_steps=False)
    assert _told(lambda: at_once(jsonrpc.decoding(body)), in_steps=True) == told
    assert _told(lambda: at_once(jsonrpc.decoding(jsonrpc.BOM + body)), in_steps=True) == told


WIDE = b",".join(b'"k%d":[]' % number for number in range(150_000))


@pytest.mark.parametrize(
    "body",
    [
        jsonrpc.BOM + b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{%b}}}' % WIDE,
        b'{"jsonrpc":"2.0",%b,"id":1,"method":"m"}' % WIDE,
        b'{"jsonrpc":"2.0",%b,"id":1,"method":7}' % WIDE,
        b'{"jsonrpc":"2.0",%b,"id":1,"method":"m"}}' % WIDE,
    ],
    ids=["a byte order mark", "very many members", "no method", "no JSON"],
)
def test_no_large_message_is_left_to_one_step(body: bytes) -> None:
    steps = jsonrpc.decoding(body)
    taken = 0
    with suppress(Malformed):
        for _ in steps:
            taken += 1
    assert taken > len(body) // (2 * PIECE_BYTES)


def _told(decode: Callable[[], jsonrpc.Message], *, in_steps: bool) -> object:
    """What a message says, its params opened; or why it is none."""
    try:
        message = decode()
        if not message.is_request:
            params = {}
        elif in_steps:
            params = at_once(jsonrpc.opening_params(message))
        else:
            params = jsonrpc.params_of(message)
    except Malformed as bad:
        return bad.code, re.sub(r" \(byte \d+\)", "", bad.message), bad.id
    values = [getattr(message, name) for name in jsonrpc.Message.__struct_fields__]
    return (
        [bytes(value) if isinstance(value, Raw) else value for value in values],
        {name: bytes(value) for name, value in params.items()},
    )


@pytest.mark.parametrize("said", ['{"code":5}', '{"code":5,"message":null}'])
def test_an_error_without_a_message_keeps_its_code_and_what_came(said: str) -> None:
    found = msgspec.json.decode(jsonrpc.well_formed(Raw(said.encode())))
    assert found == {"code": 5, "message": repr(said), "data": msgspec.json.decode(said)}


@pytest.mark.parametrize("said", ['{"message":"", "code":1e2}', '{"code":1,"message":"x","y":2}'])
def test_an_error_object_goes_on_as_it_came(said: str) -> None:
    assert bytes(jsonrpc.well_formed(Raw(said.encode()))) == said.encode()
