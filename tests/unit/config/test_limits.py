"""The bounds of the limits themselves, and where each ends up."""

from __future__ import annotations

import pytest

from armory.config import ConfigProblems, load_text
from armory.runtime.blocks.upstreams import upstream_specs
from armory.runtime.settings import gateway_settings, http_settings

LIMITS = "server.limits"
UP = "upstreams.a"


def text_of(path: str, value: str) -> str:
    key = path.rpartition(".")[2]
    if path.startswith(LIMITS):
        return f"server: {{limits: {{{key}: {value}}}}}"
    return f"upstreams: {{a: {{command: x, {key}: {value}}}}}"


@pytest.mark.parametrize(
    ("path", "least", "below"),
    [
        (f"{LIMITS}.body_bytes", "1", "0"),
        (f"{LIMITS}.header_bytes", "1024", "1023"),
        (f"{LIMITS}.connections", "1", "0"),
        (f"{LIMITS}.header_timeout_s", "0.5", "0"),
        (f"{LIMITS}.body_timeout_s", "0.5", "0"),
        (f"{LIMITS}.keepalive_timeout_s", "0.5", "0"),
        (f"{LIMITS}.write_timeout_s", "0.5", "0"),
        (f"{LIMITS}.unread_bytes", "1", "0"),
        (f"{LIMITS}.arriving_bytes", "1", "0"),
        (f"{LIMITS}.json_depth", "8", "7"),
        (f"{LIMITS}.json_depth", "512", "513"),
        (f"{LIMITS}.stdio_line_bytes", "1", "0"),
        (f"{LIMITS}.list_entries", "1", "0"),
        (f"{LIMITS}.list_bytes", "1", "0"),
        (f"{LIMITS}.inflow_bytes", "1", "0"),
        (f"{LIMITS}.outflow_bytes", "1", "0"),
        (f"{LIMITS}.concurrent_starts", "1", "0"),
        (f"{LIMITS}.sessions", "1", "0"),
        (f"{LIMITS}.session_idle_s", "0.5", "0"),
        (f"{LIMITS}.streams", "1", "0"),
        (f"{LIMITS}.batch_items", "1", "0"),
        (f"{LIMITS}.batch_answer_bytes", "1", "0"),
        (f"{LIMITS}.sessions_per_principal", "1", "0"),
        (f"{LIMITS}.streams_per_principal", "1", "0"),
        (f"{LIMITS}.parked_per_principal", "1", "0"),
        (f"{LIMITS}.query_chars", "8000", "8001"),
        (f"{LIMITS}.query_top_k", "200", "201"),
        (f"{LIMITS}.rest_query_chars", "1", "0"),
        (f"{LIMITS}.rest_top_k", "1", "0"),
        (f"{LIMITS}.searches", "1", "0"),
        (f"{LIMITS}.searches_per_principal", "1", "0"),
        (f"{LIMITS}.tasks_per_principal", "1", "0"),
        (f"{LIMITS}.parked_interactions", "1", "0"),
        (f"{UP}.max_concurrency", "1", "0"),
        (f"{UP}.max_queue", "0", "-1"),
        (f"{UP}.max_sessions", "1", "0"),
        (f"{UP}.health_interval_s", "0.5", "0"),
    ],
)
def test_what_lies_beyond_is_refused_with_its_path(path: str, least: str, below: str) -> None:
    load_text(text_of(path, least), environ={})
    with pytest.raises(ConfigProblems) as refused:
        load_text(text_of(path, below), environ={})
    assert [found.path for found in refused.value.problems] == [path]


def test_they_arrive_where_they_are_kept() -> None:
    limits = "{json_depth: 9, session_idle_s: 7, list_entries: 5, stdio_line_bytes: 6, sessions: 4"
    limits += ", list_bytes: 8}"
    block = "{command: x, max_queue: 3, health_interval_s: 2}"
    loaded = load_text(f"server: {{limits: {limits}}}\nupstreams: {{a: {block}}}", environ={})
    http = http_settings(loaded.config)
    assert (http.json_depth, http.session_idle_s, http.sessions) == (9, 7, 4)
    small = "server: {limits: {query_chars: 5, query_top_k: 6}}"
    gateway = gateway_settings(load_text(small, environ={}).config)
    assert (gateway.query_chars, gateway.query_top_k) == (5, 6)
    (spec,) = upstream_specs(loaded)
    assert (spec.list_entries, spec.list_bytes, spec.message_bytes) == (5, 8, 6)
    assert (spec.max_queue, spec.health_interval_s) == (3, 2)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("server:\n  limits: {batch_items: true}", f"{LIMITS}.batch_items", "a whole number"),
        ("server:\n  limits: {connections: true}", f"{LIMITS}.connections", "a whole number"),
        (
            "server:\n  limits: {write_timeout_s: true}",
            f"{LIMITS}.write_timeout_s",
            "a number",
        ),
        ("tool_rag:\n  miss_cost: false", "tool_rag.miss_cost", "a number"),
        (
            "tool_rag:\n  multi_factor: {weights: {dense: true}}",
            "tool_rag.multi_factor.weights.dense",
            "a number",
        ),
    ],
)
def test_truth_is_no_number(text: str, path: str, message: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        load_text(text, environ={})
    (problem,) = caught.value.problems
    assert problem.path == path
    assert problem.line == 2
    assert message in problem.message
    assert f"it is {'false' if 'false' in text else 'true'}" in problem.message.lower()
