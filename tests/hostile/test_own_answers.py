"""Answers of an upstream at its own endpoint in which little says much."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.domain.groups import OwnGroup
from armory.gateway.gateway import Gateway
from armory.gateway.lists import own_endpoint
from armory.gateway.views.view import View
from armory.protocol.capabilities import GROUPS_DECLARED
from armory.protocol.link import Call, Owner, Reply
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving, tool

pytestmark = pytest.mark.anyio
LISTS = ServerLists(
    tools=[tool("now", "x" * 10_000), *(tool(f"hidden{n}", "x") for n in range(50))],
    resources=[{"uri": "file:///a", "name": "a"}],
    capabilities={"tools": {}, "resources": {}},
)
RULE = Rule(allow=("files__now", "files+file:///a*"))


async def answered(method: str, said: dict[str, Any], lists: ServerLists = LISTS) -> Any:
    """What a caller of whom a rule keeps something is told."""

    async def answer(_call: Call, _owner: Owner) -> Reply:
        return result({"resultType": "complete", **said}, "modern")

    pool = ScriptedPool({"files": ScriptedUpstream(lists, answer)})
    gateway = Gateway(pool, policy=Policy([RULE]))
    gateway.publish(pool.catalog())
    body = modern_body(1, method, {"names": ["now"], "name": "g"}, capabilities=GROUPS_DECLARED)
    async with (
        serving(gateway) as (url, _),
        aiohttp.ClientSession() as http,
        http.post(f"{url}/mcp/files", json=body, headers=modern_headers(body)) as got,
    ):
        return (await messages(got))[-1]["result"]


async def test_a_definition_is_told_once_however_often_it_is_named() -> None:
    found = await answered("tools/describe", {"tools": [{"name": "now"}] * 1_000})
    assert [one["name"] for one in found["tools"]] == ["now"]


def _counting(work: Callable[..., Any], turns: list[int], seen: Counter[int]) -> Callable[..., Any]:
    def counted(*given: Any, **how: Any) -> Any:
        seen[turns[0]] += 1
        return work(*given, **how)

    return counted


def _turning(turns: list[int]) -> None:
    turns[0] += 1
    asyncio.get_running_loop().call_soon(_turning, turns)


@pytest.mark.parametrize(
    ("method", "said", "most"),
    [
        ("tools/manifest", {"entries": [{"name": "now"}] * 2_000}, 64),
        ("tools/describe", {"tools": [{"name": "now"}] * 2_000}, 64),
        ("groups/list", {"groups": [{"name": f"g{n}"} for n in range(2_000)]}, 64),
        (
            "groups/get",
            {"contents": {"resources": [{"uri": f"file:///a{'b' * 60_000}"}] * 50}},
            1,
        ),
    ],
)
async def test_others_have_their_turn_between_entries(
    method: str, said: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, seen = [0], Counter[int]()
    opened = _counting(own_endpoint.members_or_none, turns, seen)
    monkeypatch.setattr(own_endpoint, "members_or_none", opened)
    _turning(turns)
    await answered(method, said)
    assert sum(seen.values()) >= 50
    assert max(seen.values()) <= most


async def test_a_group_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, seen = [0], Counter[int]()
    monkeypatch.setattr(View, "tool", _counting(View.tool, turns, seen))
    group = OwnGroup("g", tools=tuple(f"hidden{n}" for n in range(50)))
    lists = replace(LISTS, groups=(group,))
    found = await answered("groups/list", {"groups": [{"name": "g"}] * 1_000}, lists)
    assert found["groups"] == []
    assert seen[0] <= 100
