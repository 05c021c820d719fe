"""Depth of JSON, told from its bytes."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from armory.protocol.scanning import nesting
from armory.protocol.scanning.nesting import (
    PIECE_BYTES,
    DepthScan,
    cutting,
    deeper_than,
    pieces_deeper_than,
)
from armory.protocol.scanning.values import at_once
from tests.unit.protocol.walking import depth

TEXT = st.text(alphabet='[]{}"\\é,:a', max_size=6)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


def pruned(found: Any, levels: int) -> Any:
    if not isinstance(found, dict | list):
        return found
    if levels == 0:
        return 0
    if isinstance(found, dict):
        return {key: pruned(value, levels - 1) for key, value in found.items()}
    return [pruned(value, levels - 1) for value in found]


@given(value=JSON, limit=st.integers(1, 5), plain=st.booleans())
@settings(max_examples=300, deadline=None)
def test_depth_and_what_is_cut_are_as_a_walk_over_the_value_tells(
    value: Any, limit: int, plain: bool
) -> None:
    data = json.dumps(value, ensure_ascii=plain).encode()
    assert deeper_than(data, limit) is (depth(value) > limit)
    assert json.loads(at_once(cutting(data, limit))) == pruned(value, limit)


@given(data=st.binary(max_size=40), limit=st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_what_is_no_json_is_looked_through_all_the_same(data: bytes, limit: int) -> None:
    deeper_than(data, limit)
    assert len(at_once(cutting(data, limit))) <= len(data)


@given(value=JSON, limit=st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_a_large_message_is_judged_as_a_small_one(value: Any, limit: int) -> None:
    data = json.dumps([value, "x" * 20_000]).encode()
    assert deeper_than(data, limit) is (depth([value]) > limit)


@given(value=JSON, limit=st.integers(1, 5), plain=st.booleans(), size=st.integers(1, 9))
@settings(max_examples=300, deadline=None)
def test_pieces_tell_what_the_whole_tells(value: Any, limit: int, plain: bool, size: int) -> None:
    data = json.dumps(value, ensure_ascii=plain).encode()
    with patch.object(nesting, "PIECE_BYTES", size):
        found = list(pieces_deeper_than(data, limit))
    assert any(found) is (depth(value) > limit)
    assert True not in found[:-1]


def test_nothing_is_looked_at_beyond_where_it_is_too_deep() -> None:
    assert list(pieces_deeper_than(b"[" * 50 * PIECE_BYTES, 100)) == [True]


@given(value=JSON, limit=st.integers(1, 5), plain=st.booleans(), sizes=st.lists(st.integers(1, 9)))
@settings(max_examples=300, deadline=None)
def test_what_arrives_bit_by_bit_is_judged_as_the_whole(
    value: Any, limit: int, plain: bool, sizes: list[int]
) -> None:
    data = json.dumps(value, ensure_ascii=plain).encode()
    scan, found, at = DepthScan(limit), list[bool](), 0
    for size in [*sizes, len(data)]:
        found += scan.feed(data[at : at + size])
        at += size
        if True in found:
            break
    assert any(found) is (depth(value) > limit)
