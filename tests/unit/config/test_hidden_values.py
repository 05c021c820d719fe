"""Messages about values that may be secret do not quote them, whatever kind they are of."""

from __future__ import annotations

import pytest

from armory.config import ConfigProblems, load_text

DIGITS = "998877665544"


@pytest.mark.parametrize(
    "text",
    [
        f"security: {{encryption_key: {DIGITS}}}",
        f"security: {{tokens: {{a: {{token: {DIGITS}}}}}}}",
        f"security: {{jwt: {{secret: {DIGITS}, audience: x}}}}",
        f"server: {{metrics: {{token: {DIGITS}}}}}",
        f"agent: {{api_key: {DIGITS}}}",
        f"upstreams: {{a: {{url: 'https://x', auth: {{private_key: {DIGITS}}}}}}}",
        f"upstreams: {{a: {{openapi: x, base_url: 'htp://api/v1?appid={DIGITS}'}}}}",
        f"upstreams: {{a: {{openapi: {DIGITS}}}}}",
        f"tool_rag: {{openai: {{base_url: 'htt://me:{DIGITS}@x'}}}}",
    ],
)
def test_a_message_does_not_quote_what_may_be_secret(text: str) -> None:
    with pytest.raises(ConfigProblems) as raised:
        load_text(text, environ={})
    assert DIGITS not in str(raised.value)
    assert "expected " in str(raised.value)


def test_a_number_where_a_secret_belongs_is_told_how_to_be_written() -> None:
    with pytest.raises(ConfigProblems, match="expected text; put it in quotes"):
        load_text(f"agent: {{api_key: {DIGITS}}}", environ={})
