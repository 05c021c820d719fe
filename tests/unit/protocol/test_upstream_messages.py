from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from armory.protocol import bodies, jsonrpc
from armory.protocol.jsonrpc import error_of
from armory.protocol.rawjson import object_of
from armory.protocol.scanning.values import PIECE_BYTES, at_once
from armory.protocol.upstream_messages import (
    ABSENT,
    TruncatedMessage,
    UnreadableMessage,
    UpstreamMessage,
    decode,
    decoding,
    own_id,
    params_of,
)

INFO = {"name": "armory", "version": "1"}
PREFIX = "io.modelcontextprotocol/"


def test_a_request_keeps_values_as_they_are() -> None:
    sent = jsonrpc.request(7, "tools/call", {"name": Raw(b'"a"'), "arguments": Raw(b'{"x":1.50}')})
    assert sent == (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call",'
        b'"params":{"name":"a","arguments":{"x":1.50}}}'
    )


def test_an_envelope_keeps_its_values_as_bytes() -> None:
    (message,) = decode(b'{"jsonrpc":"2.0","id":3,"result":{"a": 1.50}}')
    assert (message.id, bytes(message.result), message.error) == (3, b'{"a": 1.50}', ABSENT)
    assert params_of(message) == {}


@pytest.mark.parametrize("size", [1, 2_000_000])
def test_a_byte_order_mark_is_none_of_it(size: int) -> None:
    text = "é" * size
    said = f'{{"jsonrpc":"2.0","id":3,"result":{{"a":"{text}"}}}}'.encode()
    (message,) = decode(b"\xef\xbb\xbf" + said)
    assert (message.id, msgspec.json.decode(message.result)) == (3, {"a": text})


def test_a_batch_is_read_message_by_message() -> None:
    first, second = decode(b' [{"id":1,"result":{}},{"method":"m","params":{"a":[1]}}]')
    assert (first.id, second.method, bytes(params_of(second)["a"])) == (1, "m", b"[1]")


@pytest.mark.parametrize("blanks", [1, 100_000, 3 << 20])
def test_a_batch_behind_many_blanks_is_one(blanks: int) -> None:
    data = b" \r\n\t" * (blanks // 4) + b' [{"method":"a"},{"method":"b"}]'
    assert bodies.is_batch(data)
    assert [message.method for message in decode(data)] == ["a", "b"]
    with pytest.raises(UnreadableMessage, match="not a JSON-RPC message"):
        decode(b" " * blanks + b"nothing")
    with pytest.raises(UnreadableMessage, match="an empty body"):
        decode(b" " * blanks)


@pytest.mark.parametrize(
    "data",
    [b"nonsense", b"3", b'{"id":', b"[1]", b'{"id":true}', b"\xff\xfe", b'{"method":3}'],
)
def test_garbage_is_no_message_and_said_to_be(data: bytes) -> None:
    with pytest.raises(UnreadableMessage, match="not a JSON-RPC message"):
        decode(data)


@pytest.mark.parametrize("data", [b"", b" \r\n"])
def test_what_is_empty_is_called_so(data: bytes) -> None:
    with pytest.raises(UnreadableMessage, match="an empty body"):
        decode(data)


def test_deep_nesting_is_cut_and_known_to_be() -> None:
    deep = b"[" * 2_000_000 + b"]" * 2_000_000  # Python 3.14 reads what the stack has room for
    (message,) = decode(b'{"id":1,"result":{"a":' + deep + b',"b":"\\udc00"}}')
    assert isinstance(message, TruncatedMessage)
    assert object_of(message.result)["b"] == "\ufffd"
    with pytest.raises(UnreadableMessage):
        decode(b'{"id":1,"result":' + b"[" * 2_000_000)


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    (message,) = decode(b'{"id":1,"result":{"a\\ud800":["\\udc00x", 1]}}')
    assert object_of(message.result) == {"a\ufffd": ["\ufffdx", 1]}


def test_bytes_that_are_no_text_do_not_travel_on() -> None:
    (message,) = decode(b'{"id":1,"result":{"a":"\xff\xc3\xbc"}}')
    assert object_of(message.result) == {"a": "\ufffd\u00fc"}


def test_params_that_are_no_object_are_none() -> None:
    assert params_of(decode(b'{"method":"m","params":[1]}')[0]) == {}


@pytest.mark.parametrize(
    ("said", "meant"),
    [(7, 7), ("7", 7), (7.0, 7), (7.5, None), (True, None), ("", None), ("-7", None),
     ("7" * 16, None), ("\u0667", None),
     (float("nan"), None), (None, None), ([7], None)],
)  # fmt: skip
def test_ids_that_come_back_are_known_in_any_form(said: object, meant: int | None) -> None:
    assert own_id(said) == meant


def test_an_error_of_null_says_that_nothing_failed() -> None:
    texts = (b'{"id":1,"result":{},"error":null}', b'{"id":1,"error":{"code":1}}', b'{"id":1}')
    assert [decode(text)[0].failed for text in texts] == [False, True, False]


def test_errors_are_read_as_far_as_they_go() -> None:
    assert error_of(Raw(b'{"code":-1,"message":"m","data":{"a":1}}')).data == {"a": 1}
    assert error_of(Raw(b'"odd"')).code == -32603


@pytest.mark.parametrize("length", [1, 100_000])
def test_a_result_is_one_line(length: int) -> None:
    result = {"content": [{"type": "text", "text": "x\n" * length}]}
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}, indent=1)
    (found,) = decode(text.replace("\n", "\r\n").encode())
    raw = bytes(memoryview(found.result))
    assert not {10, 13} & set(raw)
    assert json.loads(raw) == result


@pytest.mark.parametrize(
    "member", ["result", "params", "error", "jsonrpc", "more", "id", "method", "result\\u0020"]
)
@pytest.mark.parametrize("odd", ["e", "é"])
def test_a_wide_message_is_read_in_steps_as_a_small_one_is_in_one(member: str, odd: str) -> None:
    long = f'{{"content":[{"[]," * 400_000}"{odd}"],"x": 1.50}}'
    data = f'{{"id":7,"method":"m","result":{{"a":1}},"{member}":{long}}}'.encode()
    steps = decoding(data)
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found = [_said(message) for message in done.value]
            break
        except UnreadableMessage:
            found = []
            break
        taken += 1

    try:
        expected = [_said(msgspec.json.decode(data, type=UpstreamMessage))]
    except msgspec.DecodeError:
        expected = []
    assert found == expected
    assert taken > len(data) // PIECE_BYTES


def _said(message: UpstreamMessage) -> list[object]:
    values = [getattr(message, name) for name in UpstreamMessage.__struct_fields__]
    return [bytes(value) if isinstance(value, Raw) else value for value in values]


def test_of_a_wide_message_with_what_is_no_text_the_rest_is_kept() -> None:
    data = b'{"id":7,"result":{"content":[' + b"[]," * 400_000 + b'"\xff"]}}'
    (found,) = decode(data)
    assert found.id == 7
    assert bytes(found.result).endswith('[],"\ufffd"]}'.encode())


class Watched(bytes):
    """Bytes that cannot be looked through, or copied, in one go."""

    def _all(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("all of it, in one step")

    __bytes__ = __contains__ = isascii = strip = lstrip = replace = removeprefix = decode = _all


@pytest.mark.parametrize("text", ["e", "é"])
@pytest.mark.parametrize("result", ['{"x":[%s"%s"]}', '{"content":[],"x":[%s"%s"]}'])
def test_no_step_goes_through_all_of_a_large_message(result: str, text: str) -> None:
    data = f'{{"id":7,"result":{result % ("[]," * 900_000, text)}}}'.encode()
    (found,) = at_once(decoding(Watched(data)))
    assert bytes(memoryview(found.result)) in data


_BEGIN, _LONG = b'{"id":7,"result":{"a":"', b"x" * (3 << 20)


@pytest.mark.parametrize(
    "data",
    [_LONG, b" " * len(_LONG), _BEGIN + _LONG, _BEGIN + _LONG + b'\xff"}}',
     _BEGIN + _LONG + b'\\ud800"}}', _BEGIN + _LONG + b'"\r}}', _BEGIN + _LONG + b'"\r}} x',
     b'[{"method":"m"},' + _BEGIN + _LONG + b'"}}]', b"[" + b'{"method":"m"},' * 200_000],
    ids=["text", "blank", "cut off", "no text", "surrogate", "line end", "more behind", "batch",
         "too many"],
)  # fmt: skip
def test_no_step_goes_through_all_of_what_is_malformed(data: bytes) -> None:
    found: list[list[object]] | None
    try:
        found = [_said(message) for message in at_once(decoding(Watched(data)))]
    except UnreadableMessage:
        found = None
    try:
        assert found == [_said(message) for message in decode(data)]
    except UnreadableMessage:
        assert found is None


@pytest.mark.parametrize("before", [b"", jsonrpc.BOM], ids=["plain", "a byte order mark"])
@pytest.mark.parametrize("beside", [b"", b'"more":1,' * 200_000], ids=["few", "very many members"])
def test_a_large_answer_is_read_in_steps_whatever_stands_around(
    before: bytes, beside: bytes
) -> None:
    many = b",".join(b"[%d]" % number for number in range(200_000))
    data = before + b'{"jsonrpc":"2.0",%b"id":1,"result":{"a":[%b]}}' % (beside, many)
    steps = decoding(data)
    assert sum(1 for _ in steps) > len(data) // PIECE_BYTES
    (message,) = at_once(decoding(data))
    assert (message.id, len(memoryview(message.result))) == (1, len(many) + 8)
