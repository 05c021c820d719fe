"""What an upstream lists for a client that declares just so much, over every transport."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from armory.domain.principal import ANONYMOUS
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingClient
from armory.testing.upstreams.tools import TOOLS
from tests.contract.links import BOUND_S, Rig

pytestmark = pytest.mark.anyio
NEEDS = {"sample": "sampling", "roots": "roots"}


async def listed(rig: Rig, capabilities: dict[str, Any]) -> list[str]:
    async with asyncio.timeout(BOUND_S):
        lists = await rig.pool.fetch_lists_for("up", capabilities)
    return [tool["name"] for tool in lists.tools]


async def test_lists_are_those_for_what_is_declared(legacy: Rig) -> None:
    if legacy.server is not None:
        legacy.server.script.needs = NEEDS
    else:
        await legacy.reconfigure(args=("--needs", json.dumps(NEEDS)))
    pool, everything = legacy.pool, list(TOOLS)
    own = await pool.upstream("up").lists.over(await pool.upstream("up").own_link())
    assert [tool["name"] for tool in own.tools] == everything
    before = pool.status()["up"].sessions
    plain = [name for name in everything if name not in NEEDS]
    assert await listed(legacy, {}) == plain
    assert await listed(legacy, {"roots": {}}) == [n for n in everything if n != "sample"]
    assert await listed(legacy, {"sampling": {}, "roots": {}}) == everything
    assert pool.status()["up"].sessions == before
    owner = Owner(ANONYMOUS, "one", RecordingClient({"sampling": {}}))
    mine = await pool.fetch_lists("up", owner)
    assert [tool["name"] for tool in mine.tools] == [n for n in everything if n != "roots"]
    modern = await pool.fetch_lists("up", Owner(ANONYMOUS), {"roots": {}})
    assert [tool["name"] for tool in modern.tools] == [n for n in everything if n != "sample"]


async def test_the_gateway_is_listed_everything_in_either_era(rig: Rig) -> None:
    if rig.server is not None:
        rig.server.script.needs, rig.server.script.needed_always = NEEDS, True
    else:
        await rig.reconfigure(args=("--needs", json.dumps(NEEDS), "--needed-always"))
    async with asyncio.timeout(BOUND_S):
        link = await rig.pool.upstream("up").own_link()
        own = await rig.pool.upstream("up").lists.over(link)
    assert [tool["name"] for tool in own.tools] == list(TOOLS)
