"""OutlinedMessage answers read by their short form: the same as read whole, whatever is in them."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from armory.protocol.outline import (
    LINKS,
    PIECE_BYTES,
    condensed,
    has_links,
    outlined,
    outlining,
)
from armory.protocol.upstream_messages import (
    OutlinedMessage,
    UnreadableMessage,
    UpstreamMessage,
    decode,
    decoding,
)

LONG = "x" * 20_000
PLAIN = base64.b64encode(bytes(range(256)) * 80).decode()
TRICKY = (
    LONG,
    PLAIN,
    "é" * 9_000,
    "a" * 5_000 + '"' + "b" * 5_000,
    "a" * 5_000 + "\\" + "b" * 5_000,
    "tail of backslashes" + "y" * 5_000 + "\\\\",
    '"result":{' + "z" * 5_000,
    "lines\n" * 2_000,
    '"isError":true' * 400,
    "short",
    "",
)


def message(result: Any, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": result, **more}).encode()


def result_of(data: bytes | bytearray) -> Any:
    (found,) = decode(data)
    assert found.id == 7
    return json.loads(bytes(memoryview(found.result)))


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


trees = st.recursive(
    st.one_of(st.sampled_from(TRICKY), st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(("content", "a", "_meta", "k" * 5_000)), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(trees, st.booleans(), st.booleans())
def test_what_is_read_is_what_was_sent(tree: Any, ascii_only: bool, mutable: bool) -> None:
    result = {"content": [text(PLAIN)], "tree": tree, "again": tree}
    sent = json.dumps(
        {"jsonrpc": "2.0", "result": result, "id": 7}, ensure_ascii=ascii_only
    ).encode()
    assert result_of(bytearray(sent) if mutable else sent) == result


@given(trees)
def test_an_outline_has_every_key_and_small_value(tree: Any) -> None:
    result = {"isError": True, "content": [text(PLAIN)], "tree": tree, "_meta": {"a": 1}}
    found = json.loads(outlined(Raw(msgspec.json.encode(result))))
    assert found["isError"] is True
    assert found["_meta"] == {"a": 1}
    assert found["content"][0]["type"] == "text"
    assert found.keys() == result.keys()


def test_a_large_plain_answer_is_not_gone_through() -> None:
    (found,) = decode(message({"content": [text(PLAIN), text(LONG)]}))
    assert isinstance(found, OutlinedMessage)
    assert json.loads(found.outline) == {"content": [text(""), text("")]}


@pytest.mark.parametrize("before", [b"", b" \r\n"])
@pytest.mark.parametrize("after", [b"", b"\n", b" \t\r\n"])
def test_white_space_around_is_no_difference(before: bytes, after: bytes) -> None:
    assert result_of(before + message({"content": [text(LONG)]}) + after) == {
        "content": [text(LONG)]
    }


@pytest.mark.parametrize(
    "data",
    [
        message({"content": [text(LONG)]})[:-1],
        message({"content": [text(LONG)]}) + b"x",
        message({"content": [text(LONG)]}) + message({}),
        message({"content": [text(LONG)]}).replace(b'x"}', b"x}"),
        b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"' + LONG.encode(),
        b'{"jsonrpc":"2.0","id":7,"result":{"a":"' + LONG.encode() + b'\n"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"a":"' + LONG.encode() + b'\x01"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"a":"' + LONG.encode() + b'"}}}',
    ],
    ids=["cut", "more", "two", "quotes", "open", "newline", "control", "braces"],
)
def test_garbage_stays_garbage_when_it_is_large(data: bytes) -> None:
    """As msgspec alone judges it."""
    try:
        expected = msgspec.json.decode(data, type=UpstreamMessage)
    except msgspec.DecodeError:
        with pytest.raises(UnreadableMessage):
            decode(data)
    else:
        assert bytes(memoryview(decode(data)[0].result)) == bytes(memoryview(expected.result))


def test_bytes_that_are_no_text_are_replaced_as_in_small_answers() -> None:
    data = message({"content": [text(LONG)]}).replace(b"xxx", b"x\xffx", 1)
    assert result_of(data) == {"content": [text("x\ufffdx" + LONG[3:])]}
    other = message({"content": [text(LONG)], "s": "abc"}).replace(b"abc", b"a\xffc")
    assert result_of(other)["s"] == "a\ufffdc"


def test_the_last_of_several_results_counts_as_everywhere() -> None:
    data = (
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"' + LONG.encode() + b'"},'
        b'"result":{"b":"' + PLAIN.encode() + b'"},"id":7}'
    )
    assert result_of(data) == {"b": PLAIN}


def test_a_part_that_occurs_twice_is_read_in_the_usual_way() -> None:
    data = message({"a": ""}, other={"a": ""}, more=LONG)
    assert result_of(data) == {"a": ""}
    assert not isinstance(decode(data)[0], OutlinedMessage)
    same = message({"a": LONG}, other={"a": PLAIN})
    assert result_of(same) == {"a": LONG}


def test_batches_and_requests_are_read_in_the_usual_way() -> None:
    batch = b"[" + message({"a": LONG}) + b"," + message({"a": 1}) + b"]"
    assert [found.id for found in decode(batch)] == [7, 7]
    asks = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": LONG}}).encode()
    (found,) = decode(asks)
    assert found.method == "m"
    assert json.loads(bytes(memoryview(found.params))) == {"a": LONG}


def test_escaped_quotes_end_no_string() -> None:
    tricky = {"a": "\\", "b": '"' + LONG, "c": '\\"' + LONG, "d": LONG + "\\\\", "e": PLAIN}
    assert result_of(message(tricky)) == tricky


def test_many_quotes_on_the_way_give_up_early() -> None:
    assert condensed(json.dumps([["a"] * 1_000, LONG]).encode()) is None


def test_texts_with_escapes_are_left_out_of_an_outline_too() -> None:
    quoted = 'say "hello"\n' * 3_000
    result = {
        "content": [
            text(quoted),
            {"type": "resource_link", "uri": "file:///a", "description": "d"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": quoted}},
        ],
        "structuredContent": {"deep": [quoted]},
    }
    raw = Raw(msgspec.json.encode(result))
    found = outlined(raw)
    assert len(found) < 1_000
    assert b'"uri":"file:///b"' in found
    assert b"resource_link" in found


@pytest.mark.parametrize("content", [{"a": 1}, "text", None, [1, "a", None], [[LONG]], [LONG]])
def test_content_of_another_shape_is_left_as_it_is(content: Any) -> None:
    result = {"content": content, "more": 'q"' * 9_000}
    assert json.loads(outlined(Raw(msgspec.json.encode(result))))["more"] == result["more"]


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀"])
def test_a_long_string_is_looked_at_in_pieces(letter: str) -> None:
    data = message({"content": [text(letter * (4 << 20))]})
    if letter != "x":
        data = json.dumps(json.loads(data), ensure_ascii=False).encode()
    steps = decoding(data)
    pieces = sum(1 for _ in steps)
    assert pieces >= len(data) // PIECE_BYTES - 1
    assert isinstance(decode(data)[0], OutlinedMessage)


@pytest.mark.parametrize("at", [0, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES + 5])
@pytest.mark.parametrize("wrong", [b"\xff", b"\xc3", b"\x01", b"\xe6\xbc"])
def test_what_is_no_text_is_found_in_every_piece(wrong: bytes, at: int) -> None:
    whole = "é".encode() * (3 * PIECE_BYTES // 2)
    begin = at - at % 2
    assert condensed(b'{"result":"%b"}' % whole) is not None
    assert condensed(b'{"result":"%b"}' % (whole[:begin] + wrong + whole[begin:])) is None
    assert condensed(b'{"result":"%b"}' % (whole + wrong)) is None


@pytest.mark.parametrize("name", ["content", "resources", "others"])
@pytest.mark.parametrize(("item", "linked"), [({"uri": "a:b"}, True), ({"text": "a"}, False)])
def test_of_very_many_items_only_links_are_told(
    name: str, item: dict[str, str], linked: bool
) -> None:
    many = [{"text": "a"}] * 100_000 + [item]
    found = outlined(Raw(msgspec.json.encode({"isError": True, name: many})))
    assert len(found) < 100
    assert b'"isError":true' in found
    assert (b'"uri"' in found) is linked


def test_very_many_items_are_looked_at_in_steps() -> None:
    many = [{"type": "text", "text": "a"}] * 100_000
    steps = outlining(Raw(msgspec.json.encode({"content": many})))
    assert sum(1 for _ in steps) > len(many) * 20 // PIECE_BYTES


@pytest.mark.parametrize("word", LINKS)
@pytest.mark.parametrize("place", [0, 1_000, PIECE_BYTES - 3, PIECE_BYTES, 3 * PIECE_BYTES - 1])
def test_a_link_is_found_wherever_it_stands(word: bytes, place: int) -> None:
    plain = b" " * place + b"x" * 2 * PIECE_BYTES
    assert not has_links(plain)
    assert has_links(plain[:place] + word + plain[place:])
    assert has_links(b" " * place + word)
