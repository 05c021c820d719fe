"""Large results are looked through by their outline; what a client gets must not show it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from armory.domain.principal import Principal
from armory.domain.results import CallOutcome
from armory.gateway.gateway import Gateway, Services
from armory.protocol.link import Call, Owner, Reply
from armory.testing.front import result
from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
TEXTS = {"plain": "AZaz09+/" * 40_000, "escapes": 'say "hello"\n' * 20_000}


class Calls:
    """Keeps what statistics hear of calls."""

    def __init__(self) -> None:
        self.ok: list[bool | None] = []

    def called(self, principal: Principal, call: CallOutcome) -> None:
        self.ok.append(call.ok)

    def listed(self, *_: Any, **__: Any) -> None:
        """Not asked here."""


def answering(bench: Bench, value: dict[str, Any]) -> Calls:
    """Have the upstream answer this, and the gateway tell a listener."""

    async def answer(call: Call, owner: Owner) -> Reply:
        return result(value)

    bench.pool.upstreams["up"].answer = answer
    calls = Calls()
    bench.gateway = Gateway(bench.pool, services=Services(events=calls))
    bench.gateway.publish(bench.pool.catalog())
    return calls


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_links_beside_a_large_text_are_exposed(bench: Bench, text: str) -> None:
    content = [
        {"type": "text", "text": text},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": text}},
    ]
    answering(bench, {"content": content})
    found = await bench.call("up__tool1")
    assert found["content"][0] == content[0]
    assert found["content"][1]["uri"] == "up+file:///a"
    assert found["content"][2]["resource"] == {"uri": "up+file:///b", "text": text}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_what_only_looks_like_a_link_stays(bench: Bench, text: str) -> None:
    value = {
        "content": [{"type": "text", "text": text + json.dumps({"uri": "file:///a"})}],
        "structuredContent": {"uri": "file:///a", "deep": [text]},
    }
    answering(bench, value)
    assert await bench.call("up__tool1") == value


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("failed", [True, False])
async def test_a_large_error_counts_as_one(bench: Bench, text: str, failed: bool) -> None:
    quoted = text + json.dumps({"isError": not failed})
    calls = answering(bench, {"content": [{"type": "text", "text": quoted}], "isError": failed})
    await bench.call("up__tool1")
    assert calls.ok == [not failed]


@pytest.mark.parametrize("size", [30, 1_000])
@pytest.mark.parametrize("failed", [True, False])
async def test_a_block_of_very_many_members_costs_the_others_nothing(
    bench: Bench, size: int, failed: bool
) -> None:
    wide = {f"k{number}": "x" * size for number in range(2_000)}
    content = [
        {**wide, "type": "text", "text": "x"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {**wide, "type": "resource_link", "uri": "file:///b", "name": "b"},
        {"type": "resource", "resource": {"uri": "file:///c", "text": "x"}},
    ]
    calls = answering(bench, {"content": content, "isError": failed})
    found = await bench.call("up__tool1")
    assert found["isError"] is failed
    assert calls.ok == [not failed]
    assert found["content"][0] == content[0]
    assert found["content"][1]["uri"] == "up+file:///a"
    assert found["content"][3]["resource"]["uri"] == "up+file:///c"
