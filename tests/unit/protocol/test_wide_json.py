"""JSON with many members or items: taken apart one by one, and given up where they are too many."""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from armory.protocol.errors import RpcError
from armory.protocol.jsonrpc import error_of
from armory.protocol.rawjson import (
    NULL,
    few_items,
    items_in_steps,
    members,
    need_value,
    opening,
    pack,
    scalar,
    values_at,
)
from armory.protocol.scanning.taking_apart import MOST_MEMBERS, TooWide, named_members
from armory.protocol.scanning.values import PIECE_BYTES, at_once

LONG = "x" * 70_000
"""With it, what holds it is no longer opened all at once."""
TEXT = st.text(alphabet='[]{}"\\é,: a😀', max_size=6)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, width=16) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
WRITTEN = st.sampled_from([{}, {"indent": 1}, {"separators": (" ,\n", "\t: ")}])
_members = msgspec.json.Decoder(dict[str, Raw])
_items = msgspec.json.Decoder(list[Raw])


def told(read: Callable[[], Any]) -> Any:
    """What is read, as bytes; None where it is refused."""
    try:
        found = read()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(found, dict):
        return {key: bytes(value) for key, value in found.items()}
    return [bytes(value) for value in found]


@given(st.dictionaries(TEXT, JSON, max_size=6), WRITTEN, st.booleans(), st.data())
@settings(max_examples=300, deadline=None)
def test_a_long_object_opens_as_a_short_one(
    value: dict[str, Any], how: dict[str, Any], plain: bool, draw: st.DataObject
) -> None:
    text = json.dumps({**value, "long": LONG}, ensure_ascii=plain, **how).encode()
    assert told(lambda: members(text)) == told(lambda: _members.decode(text))
    at = draw.draw(st.integers(0, len(text) - 1))
    broken = text[:at] + draw.draw(st.sampled_from([b"", b"}", b",", b'"', b":", b" ", b"\x00"]))
    broken += text[at + 1 :]
    assert told(lambda: members(broken)) == told(lambda: _members.decode(broken))


@given(st.lists(JSON, max_size=6), WRITTEN, st.data())
@settings(max_examples=200, deadline=None)
def test_a_long_array_opens_as_a_short_one(
    value: list[Any], how: dict[str, Any], draw: st.DataObject
) -> None:
    text = json.dumps([*value, LONG], **how).encode()
    assert told(lambda: few_items(text, 100)) == told(lambda: _items.decode(text))
    at = draw.draw(st.integers(0, len(text) - 1))
    broken = text[:at] + draw.draw(st.sampled_from([b"", b"]", b",", b'"', b" "])) + text[at + 1 :]
    assert told(lambda: few_items(broken, 100)) == told(lambda: _items.decode(broken))


@pytest.mark.parametrize("end", [b"", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b"[", b"[1,"])
def test_what_ends_too_early_is_refused(end: bytes) -> None:
    text = end + b" " * 70_000
    with pytest.raises(msgspec.DecodeError):
        members(text)
    with pytest.raises(msgspec.DecodeError):
        few_items(text, 10)


def test_nothing_of_what_was_refused_is_kept() -> None:
    tracemalloc.start()
    try:
        for _ in range(20):
            with suppress(msgspec.DecodeError):
                members(b'{"a":1,' + b" " * 100_000)
            with suppress(msgspec.DecodeError):
                few_items(b"[1," + b" " * 100_000, 10)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 400_000, "4 MB were refused"
    finally:
        tracemalloc.stop()


def test_too_many_are_given_up_before_they_take_memory() -> None:
    wide = b"{" + b",".join(b'"k%d":0' % number for number in range(400_000)) + b"}"
    many = b"[" + b"[]," * 1_000_000 + b"0]"
    tracemalloc.start()
    try:
        with pytest.raises(TooWide):
            members(wide)
        with pytest.raises(TooWide):
            few_items(many, 100)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000, "together they would take 150 MB"
    finally:
        tracemalloc.stop()


def test_as_many_as_are_allowed_are_opened() -> None:
    value = {f"k{number}": "x" * 200 for number in range(MOST_MEMBERS)}
    assert len(members(json.dumps(value).encode())) == MOST_MEMBERS
    with pytest.raises(TooWide):
        members(json.dumps({**value, "one": 1}).encode())
    assert len(few_items(b"[1,2,3]", 3)) == 3
    with pytest.raises(TooWide):
        few_items(b"[1,2,3]", 2)


def test_what_no_header_could_say_is_not_opened() -> None:
    for size, found in ((1_000, [0] * 1_000), (100_000, None)):
        raw = Raw(b'{"a":{"b":[%b]}}' % b",".join([b"0"] * size))
        path = ("a", "b")
        assert values_at(raw, [path]).get(path) == found


WIDE = {f"k{number}": number for number in range(20_000)}


@pytest.mark.parametrize("around", [{}, WIDE])
def test_values_at_paths_of_objects_small_and_wide(around: dict[str, int]) -> None:
    value = {**around, "a": {**around, "b": 1, "c": {"d": "x"}}, "é\\": [1], "n": None}
    wanted = {("a", "b"): 1, ("a", "c", "d"): "x", ("a", "c"): {"d": "x"}, ("n",): None}
    paths = [*wanted, ("a", "b", "c"), ("a", "z"), ("z",), ("z", "y"), ()]
    raw = Raw(json.dumps(value).encode())
    assert {path: found for path in paths if (found := values_at(raw, paths).get(path))} == {
        path: value for path, value in wanted.items() if value is not None
    }
    for none in (None, NULL, Raw(b"[" + b'"",' * 30_000 + b'""]'), Raw(b'{"a":' * 20_000)):
        assert values_at(none, [("a", "b")]) == {}
    odd = {('"',): None, ("\\",): None} if around else {}
    assert values_at(raw, odd) == {}


def test_values_of_a_wide_object_take_no_memory_for_the_others() -> None:
    wide = b"{" + b",".join(b'"k%d":[]' % number for number in range(400_000)) + b',"a":1}'
    tracemalloc.start()
    try:
        assert values_at(Raw(wide), [("a",)]) == {("a",): 1}
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def test_a_scalar_is_a_short_plain_value() -> None:
    for text, value in (("1", 1), ('"a"', "a"), ("true", True), ("1.5", 1.5), ("null", None)):
        assert scalar(Raw(text.encode())) == value
    for text in ("[1]", "{}", "1e400", "", '"' + "x" * 2_000 + '"', "[" * 3_000):
        assert scalar(Raw(text.encode())) is None
    assert scalar(None) is None


EMPTY_LISTS = Raw(b"[%b[]]" % (b"[]," * 300_000))


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that it has in memory beside what there was."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_data_of_an_error_is_opened_where_it_is_short() -> None:
    found = error_of(Raw(b'{"code":-32042,"message":"m","data":{"a":[1]}}'))
    assert (found.code, found.message, found.data) == (-32042, "m", {"a": [1]})
    long = Raw(b'{"code":-32042,"message":"m","data":%b}' % memoryview(EMPTY_LISTS))
    assert peak_of(lambda: error_of(long)) < 100_000
    found = error_of(long)
    assert (found.code, found.message, found.data) == (-32042, "m", None)


def test_a_value_that_somebody_sent_is_opened_where_it_has_few() -> None:
    long = "a, " * 100_000
    assert need_value(pack(long), "arguments.query") == long
    assert need_value(pack(["a" * 100, 1] * 4_000), "x") == ["a" * 100, 1] * 4_000

    def refused() -> None:
        with pytest.raises(RpcError, match=r"arguments\.query is \[\[\],.*cannot be read"):
            need_value(EMPTY_LISTS, "arguments.query")

    assert peak_of(refused) < 2_000_000


@pytest.mark.parametrize(
    "member",
    [
        '"a":01', '"a":-', '"a":-0', '"a":1.50', '"a":1e5', '"a":12345678901234567890', '"a":truex',
        '"a":tru', '"a":"\\n"', '"a":"\n"', '"\\u0061":1', '"a" :\t1 ', '"a":[ ]', '"a":{}', '"a"1',
        '"é":"é"', '"a":"é"', '"":""', '"a":[]]', '"a":', '"a":"b', '"a":null',
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [True, False])
def test_a_short_member_beside_a_long_one(member: str, before: bool) -> None:
    both = [member, f'"b":"{LONG}"']
    data = f"{{{','.join(both if before else both[::-1])}}}".encode()
    assert told(lambda: members(data)) == told(lambda: _members.decode(data))


def test_many_short_members_are_not_given_to_a_parser_one_by_one() -> None:
    data = json.dumps({f"k{number}": number for number in range(10_000)}).encode()
    calls = 0

    def called(_frame: Any, event: str, _value: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        with suppress(TooWide):
            members(data)
    finally:
        sys.setprofile(before)
    assert calls < 3 * MOST_MEMBERS


@pytest.mark.parametrize("value", ["x" * 7_000, [["é", "],", {"a": 1}]] * 400, "é" * 9_000])
def test_no_step_takes_apart_more_than_a_piece_of_members(value: Any) -> None:
    given = {f"k{number}": value for number in range(MOST_MEMBERS)}
    data = json.dumps(given).encode()
    assert sum(1 for _ in opening(data)) > len(data) // (2 * PIECE_BYTES)
    data = json.dumps([*given.values()]).encode()
    assert sum(1 for _ in items_in_steps(data, MOST_MEMBERS)) > len(data) // (2 * PIECE_BYTES)


@given(st.dictionaries(TEXT, JSON, max_size=6), WRITTEN, st.integers(0, 6), st.data())
@settings(max_examples=50, deadline=None)
def test_named_members_are_found_among_very_many(
    value: dict[str, Any], how: dict[str, Any], place: int, draw: st.DataObject
) -> None:
    many = {f"]{number},": [{"a": number}, '",{', {}] for number in range(3 * MOST_MEMBERS)}
    first = dict([*value.items()][:place])
    given = {**first, **many, "b": 0, **value, "c": LONG}
    text = json.dumps(given, **how).encode()
    names = ["c", "absent", *(name for name in value if '"' not in name and "\\" not in name)]

    def named(text: bytes) -> dict[str, Raw]:
        return at_once(named_members(memoryview(text), names))

    def parsed(text: bytes) -> dict[str, Raw]:
        return {name: raw for name, raw in _members.decode(text).items() if name in names}

    assert told(lambda: named(text)) == told(lambda: parsed(text))
    at = draw.draw(st.integers(0, len(text) - 1))
    broken = text[:at] + draw.draw(st.sampled_from([b"", b"}", b",", b'"', b":", b" ", b"\x00"]))
    broken += text[at + 1 :]
    assert told(lambda: named(broken)) == told(lambda: parsed(broken))


@pytest.mark.parametrize("name", ["k{}", "]{},", '",{{{}'])
def test_very_many_members_are_skipped_a_piece_in_a_step(name: str) -> None:
    text = json.dumps({**{name.format(n): n for n in range(100_000)}, "a": 1}).encode()
    steps = named_members(memoryview(text), ("a",))
    assert len(text) // PIECE_BYTES <= sum(1 for _ in steps) < 3 * len(text) // PIECE_BYTES


@pytest.mark.parametrize("at", range(8))
def test_very_much_space_may_stand_wherever_some_may(at: int) -> None:
    parts = ["", "{", '"a"', ":", f'"{LONG}"', ",", '"b":1', "}"]
    parts[at] += " " * 200_000
    data = "".join(parts).encode()
    assert told(lambda: members(data)) == told(lambda: _members.decode(data))
    items = data.replace(b"{", b"[").replace(b"}", b"]").replace(b":", b",")
    assert told(lambda: few_items(items, 9)) == told(lambda: _items.decode(items))
