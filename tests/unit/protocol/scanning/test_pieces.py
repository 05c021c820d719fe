"""Arrays that are taken apart piece by piece."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.protocol.rawjson import pack
from armory.protocol.scanning.pieces import PIECE_BYTES, items_in_pieces, texts_in_pieces

TEXTS = st.text('ab},{ []"\\', max_size=12)
ITEMS: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


def _items(raw: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    return msgspec.json.decode(raw, type=list[msgspec.Raw])


@given(st.lists(ITEMS, max_size=30), st.sampled_from([(", ", ": "), (",", ":")]))
def test_pieces_have_the_items_of_the_whole(array: list[Any], separators: tuple[str, str]) -> None:
    raw = json.dumps(array, separators=separators).encode()
    assert list(itertools.chain(*items_in_pieces(raw, 8))) == _items(raw)


@given(st.lists(st.text('a", \\[]', max_size=6), max_size=30), st.sampled_from([", ", ",", " , "]))
def test_pieces_have_the_texts_of_the_whole(texts: list[str], separator: str) -> None:
    raw = json.dumps(texts, separators=(separator, ":")).encode()
    assert list(itertools.chain(*texts_in_pieces(raw, 8))) == texts


def test_what_nobody_waits_for_is_not_read() -> None:
    steps = texts_in_pieces(pack(["x"] * 1_000 + [1]), 8)
    assert next(steps) == ["x", "x", "x"]
    with pytest.raises(msgspec.DecodeError):
        list(steps)


@pytest.mark.parametrize("item", [b"[]", b"0", b"{} ", b'"a"', b"[[1,2],{}]"])
def test_items_without_a_usual_end_come_in_pieces_too(item: bytes) -> None:
    raw = b"[" + b",".join([item] * 200_000) + b"]"
    steps = list(items_in_pieces(raw))
    assert max(map(len, steps)) <= PIECE_BYTES
    assert sum(map(len, steps)) == 200_000
    assert {bytes(memoryview(one)) for step in steps for one in step} == {item.strip()}


def test_what_is_cut_inside_an_item_is_tried_so_often_alone() -> None:
    nested = pack([{"a": [{"b": 1}] * 50_000}, {"c": 2}])
    steps = list(items_in_pieces(nested, 1_000))
    assert len(steps) < 210 + len(memoryview(nested)) // 1_000
    assert list(itertools.chain(*steps)) == _items(nested)


@pytest.mark.parametrize("raw", [b'{"a":1}', b"[1,", b"null", b'"' + b"},{" * 100 + b'"'])
def test_what_is_no_array_is_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        list(items_in_pieces(raw, 8))
