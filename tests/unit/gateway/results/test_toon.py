"""TOON in the place of JSON: lossless, only where smaller, nothing else touched."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
import toon_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from multidict import CIMultiDict

from armory.gateway.results.compact import compact_result, compacted, wants_toon
from armory.gateway.results.toon import Saving, encode_text, encode_value
from armory.gateway.settings import ResultFormat
from armory.llm.tokens import estimate_tokens

TABLE = [{"id": i, "name": f"user {i}", "active": i % 2 == 0} for i in range(20)]
JSON = json.dumps(TABLE)

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=30),
    st.sampled_from(["true", "null", "-", "- a", "[2]: x", "1.0", "05", "a: b", " x ", "", "\t"]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.text(max_size=10), inner, max_size=5),
        st.lists(st.fixed_dictionaries({"a": _SCALARS, "b b": inner}), max_size=5),
    ),
    max_leaves=25,
)


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values, written differently from the code's own."""
    if isinstance(left, dict) or isinstance(right, dict):
        if type(left) is not type(right) or set(left) != set(right):
            return False
        return all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) or isinstance(right, list):
        if type(left) is not type(right) or len(left) != len(right):
            return False
        return all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_VALUES)
def test_every_value_that_is_encoded_comes_back(value: Any) -> None:
    encoded = encode_value(value)
    if encoded is not None:
        assert same(toon_format.decode(encoded), value)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.one_of(st.lists(_VALUES), st.dictionaries(st.text(), _VALUES)))
def test_texts_are_lossless_and_never_cost_more(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    encoded, saving = encode_text(text)
    if encoded is text:
        assert saving.before == saving.after
    else:
        assert same(toon_format.decode(encoded), json.loads(text))
        assert estimate_tokens(encoded) < estimate_tokens(text)
        assert saving == Saving(estimate_tokens(text), estimate_tokens(encoded))


def test_a_table_becomes_much_smaller() -> None:
    encoded, saving = encode_text(JSON)
    assert encoded.startswith("[20]{id,name,active}:")
    assert saving.after < 0.6 * saving.before


@pytest.mark.parametrize(
    "text",
    [
        "plain words, no JSON at all, and long enough to be looked at",
        '{"short": 1}',
        "[" * 5_000,
        '{"broken": [1, 2, "and so on, never closed"',
        '"only a string, which has no structure that could be saved"',
        '{"twice": "the first value of the two", "twice": "the second value of the two"}',
        '{"prose": "' + "word " * 200 + '"}',
        '{"half": "a lone \\ud800 surrogate that no encoder accepts, with some more text"}',
        '{"much": ' + "1" * 2_000_000 + "}",
    ],
)
def test_what_is_no_json_or_gains_nothing_is_left_alone(text: str) -> None:
    assert encode_text(text)[0] is text


def result(**members: Any) -> Raw:
    return Raw(msgspec.json.encode(members))


def opened(raw: Raw) -> dict[str, Any]:
    return msgspec.json.decode(raw)


def counted(origin: str, before: int, after: int) -> None:
    assert origin == "server"
    assert after < before


@pytest.mark.anyio
async def test_savings_are_counted_and_nothing_else() -> None:
    seen: list[tuple[str, int, int]] = []

    def count(*told: Any) -> None:
        seen.append(told)

    await compact_result(result(content=[{"type": "text", "text": "no JSON"}]), "a", count)
    await compact_result(result(content=[{"type": "text", "text": JSON}]), "b", count)
    assert [origin for origin, _, _ in seen] == ["b"]
    assert seen[0][1] == estimate_tokens(JSON)
    assert seen[0][2] < seen[0][1]


@pytest.mark.anyio
async def test_only_the_text_changes() -> None:
    members: dict[str, Any] = {
        "content": [
            {"type": "text", "text": JSON, "annotations": {"audience": ["user"]}, "x": 1},
            {"type": "image", "data": "aGk=", "mimeType": "image/png", "text": JSON},
            {"type": "resource", "resource": {"uri": "a:b", "text": JSON}},
            {"type": "text", "text": "done"},
            {"type": "text"},
            "not an object",
        ],
        "structuredContent": {"rows": TABLE},
        "_meta": {"vendor": JSON},
        "isError": False,
        "unknown": [1.50, {"b": None}],
    }
    after = opened(await compact_result(result(**members), "server", counted))
    assert toon_format.decode(after["content"][0]["text"]) == TABLE
    assert {**after["content"][0], "text": JSON} == members["content"][0]
    assert after["content"][1:] == members["content"][1:]
    assert {k: v for k, v in after.items() if k != "content"} == {
        k: v for k, v in members.items() if k != "content"
    }


@pytest.mark.parametrize(
    "members",
    [
        {"content": [{"type": "text", "text": JSON}], "isError": True},
        {"contents": [{"uri": "a:b", "text": JSON}]},
        {"content": "no list"},
        {"content": [{"type": "text", "text": "no JSON"}]},
    ],
)
def test_errors_and_other_results_are_the_same_bytes(members: dict[str, Any]) -> None:
    before = result(**members)
    assert compacted(before)[0] is before


@pytest.mark.anyio
async def test_large_results_are_worked_on_beside_the_loop() -> None:
    rows = [{"id": i, "name": f"user {i}", "mail": f"u{i}@example.org"} for i in range(5_000)]
    raw = result(content=[{"type": "text", "text": json.dumps(rows)}])
    async with asyncio.timeout(60):
        after = opened(await compact_result(raw, "server", counted))
    assert toon_format.decode(after["content"][0]["text"]) == rows


@pytest.mark.parametrize(
    ("headers", "configured", "wanted"),
    [
        ({}, "json", False),
        ({}, "toon", True),
        ({"x-prefer-format": "TOON"}, "json", True),
        ({"X-Prefer-Format": "json"}, "toon", False),
        ({"X-Prefer-Format": "yaml"}, "json", False),
        ({"Accept": "application/json, text/event-stream"}, "json", False),
        ({"Accept": "application/json, text/event-stream, text/toon"}, "json", True),
        ({"Accept": "text/toon;q=0.5, application/json"}, "json", True),
        ({"Accept": "text/toon; q=0"}, "toon", False),
        ({"Accept": "text/toon;q=0.000, application/json"}, "json", False),
        ({"Accept": "text/toonish"}, "json", False),
    ],
)
def test_who_asks_for_toon(headers: dict[str, str], configured: ResultFormat, wanted: bool) -> None:
    assert wants_toon(CIMultiDict(headers), configured) is wanted


def test_a_result_of_very_many_blocks_stays_as_it_is() -> None:
    raw = Raw(
        b'{"content":[%b{"type":"text","text":%b}]}' % (b"[]," * 30_000, json.dumps(JSON).encode())
    )
    assert compacted(raw) == (raw, Saving())
