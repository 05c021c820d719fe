"""What a client sends at once: how deep it may be, and what a batch is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from armory.protocol import bodies
from armory.protocol.errors import Malformed
from armory.protocol.scanning.values import at_once
from tests.unit.protocol.walking import depth

JSON: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.text('a[]{}"\\', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def test_a_batch_is_an_array_that_is_not_empty() -> None:
    assert bodies.is_batch(b" \n[")
    assert not bodies.is_batch(b" {")
    assert len(at_once(bodies.batch_items(b"[1,{}]"))) == 2
    for body in (b"[]", b"[1"):
        with pytest.raises(Malformed):
            at_once(bodies.batch_items(body))


def test_half_a_character_in_a_batch_is_replaced() -> None:
    for more in (b"", b" " * 100_000):
        assert at_once(bodies.batch_items(rb'["\ud83d"%b]' % more)) == [Raw(rb'"\ufffd"')]
        with pytest.raises(Malformed):
            at_once(bodies.batch_items(rb'["\ud83d"%b' % more))


@given(value=JSON, limit=st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_depth_is_told_as_a_walk_over_the_value_tells_it(value: Any, limit: int) -> None:
    for text in (msgspec.json.encode(value), json.dumps(value, indent=1).encode()):
        if depth(value) > limit:
            with pytest.raises(Malformed, match=f"deeper than {limit} levels"):
                bodies.check_depth(text, limit)
        else:
            bodies.check_depth(text, limit)


def test_brackets_inside_texts_are_no_nesting() -> None:
    bodies.check_depth(json.dumps({"a": '[[[[{"\\[[[', "b": "{{{{"}).encode(), 1)
    with pytest.raises(Malformed):
        bodies.check_depth(b"[" * 4_000_000, 256)
