"""Where values end, found piece by piece: as a parser of the whole would find it."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.protocol.scanning.values import PIECE_BYTES, at_once, value_end

_TEXTS = st.text(st.sampled_from('a,:[]{}"\\\n\u00e9 0'), max_size=8)
_LONG_TEXTS = st.text(st.sampled_from('ab,\\"\n\u00e9\U0001f600'), min_size=20, max_size=90)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**30, 10**60)
    | _LONG_TEXTS
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(_TEXTS, inner, max_size=6),
    max_leaves=40,
)


def _end(data: bytes, at: int, piece_bytes: int) -> int | None:
    """Where it says the value ends; None: it says that it is not JSON."""
    try:
        return at_once(value_end(memoryview(data), at, piece_bytes))
    except (msgspec.DecodeError, RecursionError):
        return None


def _parsers_end(data: bytes, at: int) -> int | None:
    try:
        msgspec.json.decode(data[at:], type=msgspec.Raw)
    except msgspec.DecodeError as error:
        said = str(error).partition("trailing characters (byte ")[2]
        return at + int(said[:-1]) - 1 if said else None
    return None


@given(_VALUES, st.sampled_from([",", " ,", "]", ':"a"}']), st.booleans(), st.integers(1, 24))
def test_it_ends_where_a_parser_says(value: Any, behind: str, spaced: bool, piece: int) -> None:
    separators = (", ", ": ") if spaced else (",", ":")
    data = f"[{json.dumps(value, ensure_ascii=spaced, separators=separators)}{behind}".encode()

    assert _end(data, 1, piece) == _parsers_end(data, 1) is not None


@given(st.text(st.sampled_from('[]{}",:0\\ e-'), max_size=40), st.integers(1, 24))
def test_what_a_parser_refuses_is_refused(text: str, piece: int) -> None:
    data = text.encode()

    assert _end(data, 0, piece) == _parsers_end(data, 0)


@given(st.text(st.sampled_from('12e-"\\u d8[{:x\x01'), max_size=12), st.data())
def test_nothing_that_is_left_out_hides_a_mistake(text: str, data: st.DataObject) -> None:
    for long in (text[:1] * 40, "0" * 30, "7" * 30, " " * 30, '"' + "a" * 30, "\\u0061" * 9):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + long + text[at:]
    given = text.encode()

    assert _end(given, 0, 20) == _parsers_end(given, 0)


@pytest.mark.parametrize(
    "wrong", ["[1,]", "[,1]", '{"a":1,}', "{,}", '{"a",1}', "[1}", "[1:2]", "[1 2]", '["\\x"]']
)
@pytest.mark.parametrize("piece", [1, 2, 3, 4, 6])
def test_pieces_hide_no_mistake_where_they_meet(wrong: str, piece: int) -> None:
    for data in (f"[{wrong},0,0]", f'{{"a":[0,0,{wrong},0,0],"b":0}}', f"[0,0,[0,{wrong}],0]"):
        assert _end(data.encode() + b",", 0, piece) is None


@pytest.mark.parametrize(
    "value",
    [
        [[]] * 100_000,
        {f"k{number}": number for number in range(50_000)},
        [{"name": "a, [b", "tags": ["},{", '"\\'], "more": {"x": [{}, []]}}] * 20_000,
        {"a": [{"b": [0] * 20_000, "c": {"d": ["e"] * 50_000}}]},
        {"a": "x" * 300_000},
        [{"a" * 200_000: 1}],
        '"\\' * 200_000,
        ["\U0001f600" * 90_000],
    ],
    ids=["lists", "members", "misleading texts", "levels", "text", "name", "escapes", "pairs"],
)
def test_no_step_goes_through_more_than_a_piece(value: Any) -> None:
    data = json.dumps(value, separators=(",", ":")).encode()
    steps = _Counted(value_end(memoryview(data + b","), 0))

    assert at_once(steps.run()) == len(data)
    assert steps.taken > len(data) // PIECE_BYTES - 1


@pytest.mark.parametrize(
    "long", [b"9" * 500_000, b"[1%b]" % (b" " * 500_000), b"1." + b"0" * 500_000 + b"1"]
)
def test_nor_through_a_number_or_space(long: bytes) -> None:
    steps = _Counted(value_end(memoryview(b'[{"a":%b}]' % long), 1))

    assert at_once(steps.run()) == len(long) + 7
    assert steps.taken > len(long) // PIECE_BYTES - 1


class _Counted:
    """Steps, counted as they are taken."""

    def __init__(self, steps: Generator[None, None, int]) -> None:
        self._steps = steps
        self.taken = 0

    def run(self) -> Generator[None, None, int]:
        while True:
            try:
                next(self._steps)
            except StopIteration as done:
                return done.value
            self.taken += 1
            yield
