from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import decode_header_value

from armory.protocol.headers import header_value


@given(st.text())
def test_header_values_survive(text: str) -> None:
    sent = header_value(text)
    assert sent.isascii()
    assert sent == sent.strip()
    assert "\n" not in sent
    assert decode_header_value(sent) == text
