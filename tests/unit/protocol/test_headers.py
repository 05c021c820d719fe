from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import decode_header_value

from armory.protocol.headers import header_value, retry_after


@given(st.text())
def test_header_values_survive(text: str) -> None:
    sent = header_value(text)
    assert sent.isascii()
    assert sent == sent.strip()
    assert "\n" not in sent
    assert decode_header_value(sent) == text


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("0.25", 0.25),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("9" * 400, None),
        ("\u00b2", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_that_can_be_waited(said: str, seconds: float | None) -> None:
    assert retry_after({"Retry-After": said}) == seconds
