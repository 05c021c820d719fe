"""Lone surrogates are replaced, whatever the pieces that a text is looked at in."""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armory.protocol.scanning import surrogates
from armory.protocol.scanning.surrogates import mending
from armory.protocol.scanning.values import at_once
from armory.protocol.upstream_messages import UnreadableMessage, decode

ESCAPES = [
    rb"\\", rb"\ud83d", rb"\ude00", rb"\uD8Ff", rb"\uDc00", rb"\u0041", rb"\n", rb"\"", rb"\ud7ff",
    rb"\ue000", b"a", b"u", b"d", "é".encode(),
]  # fmt: skip
_ONE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


@given(st.lists(st.sampled_from(ESCAPES), max_size=14), st.integers(1, 40))
@settings(max_examples=500, deadline=None)
def test_it_is_as_going_from_escape_to_escape(parts: list[bytes], piece: int) -> None:
    text = b"".join(parts)
    expected = _ONE.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)
    with patch.object(surrogates, "PIECE_BYTES", piece):
        assert at_once(mending(text)) == expected


@pytest.mark.parametrize(
    "text", [rb"\ud83d\ude00" * 50_000 + rb"\ud800", rb"\ud800" + b"x" * 600_000]
)
def test_a_large_message_is_mended_in_pieces(text: bytes) -> None:
    steps = mending(b'{"id":1,"result":{"a":"%b"}}' % text)
    assert sum(1 for _ in steps) > 5
    (message,) = decode(b'{"id":1,"result":{"a":"%b"}}' % text)
    assert bytes(memoryview(message.result)).count(rb"\ufffd") == 1


@pytest.mark.parametrize("data", [b'{"id":1,"result":"a\nb"}', b"[" + b"0," * 90_000 + b"0]"])
def test_what_is_no_message_stays_none(data: bytes) -> None:
    with pytest.raises(UnreadableMessage):
        decode(data)
