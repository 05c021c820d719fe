"""Numbers of YAML where a text is wanted, and texts where a number is."""

from __future__ import annotations

import pytest

from armory.config.load import load_text

WRITTEN = ["3.10", "012", "22:22", "0x1F", "1_000", ".5", "1e3", "8080", "0.1", "+7", "09"]


@pytest.mark.parametrize("written", WRITTEN)
def test_what_a_server_gets_is_what_stands_there(written: str) -> None:
    text = (
        "upstreams:\n"
        f"  a: {{command: uvx, args: [--python, {written}], env: {{VALUE: {written}}}}}\n"
        f"  b: {{url: 'https://b.example/mcp', headers: {{X-Value: {written}}}}}\n"
    )
    upstreams = load_text(text, environ={}).config.upstreams
    assert upstreams["a"].args == ["--python", written]
    assert upstreams["a"].env == {"VALUE": written}
    assert upstreams["b"].headers == {"X-Value": written}


def test_a_number_may_be_written_in_every_decimal_way() -> None:
    text = (
        "server: {port: 0080, drain_delay_s: 1.50, limits: {sessions: 10_000}}\n"
        "tool_rag: {similarity_threshold: .50, miss_cost: 2.0}\n"
    )
    config = load_text(text, environ={}).config
    assert config.server.port == 80
    assert config.server.drain_delay_s == 1.5
    assert config.server.limits.sessions == 10_000
    assert config.tool_rag.similarity_threshold == 0.5
    assert config.tool_rag.miss_cost == 2
