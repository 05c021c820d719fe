"""Text that can be written as UTF-8, text that cannot, and normal forms of what is long."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.domain.encoding import Form, is_encodable, normalized


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


FORMS: tuple[Form, ...] = ("NFC", "NFKC", "NFD", "NFKD")
WRITTEN = st.text(
    "a \n\u0301\u0327\u0323\u0345\u09c7\u09be\u1100\u1161\u11a8\u11bd\u0cc6\u0cc2\u0cd5"
    "\uac00\u0f73\u0390\ufb01\u6f22\xe9"
)


@given(text=WRITTEN, form=st.sampled_from(FORMS), times=st.integers(1, 40))
def test_long_texts_have_the_normal_form_of_short_ones(text: str, form: Form, times: int) -> None:
    said = (text + "\u1100") * times  # which a vowel of Hangul joins that comes next
    assert normalized(form, said) == unicodedata.normalize(form, said)
