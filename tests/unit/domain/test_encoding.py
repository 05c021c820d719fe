"""Text that can be written as UTF-8, and text that cannot."""

from __future__ import annotations

import pytest

from armory.domain.encoding import is_encodable


@pytest.mark.parametrize(
    ("text", "encodable"),
    [
        ("", True),
        ("a\x00é漢\U0001f600", True),
        ("a\ud83d", False),
        ("\ude00b", False),
        (b"\xff".decode(errors="surrogateescape"), False),
        ("\ud83d\ude00", False),  # two halves are no character in Python either
    ],
)
def test_half_a_character_cannot_be_written(text: str, encodable: bool) -> None:
    assert is_encodable(text) is encodable
