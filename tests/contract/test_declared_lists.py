"""What an upstream lists for a client that declares just so much, over every transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from armory.domain.principal import ANONYMOUS
from armory.protocol.capabilities import (
    APPS,
    APPS_EXTENSION,
    ROOTS,
    SAMPLING,
    SAMPLING_TOOLS,
    declaration,
)
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingClient
from armory.testing.upstreams.tools import TOOLS
from tests.contract.links import BOUND_S, Rig

pytestmark = pytest.mark.anyio
NEEDS = {"sample": "sampling", "roots": "roots"}


async def listed(rig: Rig, capabilities: Mapping[str, Any]) -> list[str]:
    async with asyncio.timeout(BOUND_S):
        lists = await rig.pool.fetch_lists_for("up", capabilities)
    return [tool["name"] for tool in lists.tools]


async def lists_by(rig: Rig, needs: dict[str, str]) -> None:
    """Have the upstream list tools by what is declared; the gateway itself is listed all."""
    if rig.server is not None:
        rig.server.script.needs = needs
    else:
        await rig.reconfigure(args=("--needs", json.dumps(needs)))
    own = await rig.pool.upstream("up").lists.over(await rig.pool.upstream("up").own_link())
    assert [tool["name"] for tool in own.tools] == list(TOOLS)


async def test_lists_are_those_for_what_is_declared(legacy: Rig) -> None:
    await lists_by(legacy, NEEDS)
    pool, everything = legacy.pool, list(TOOLS)
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


async def test_tools_and_interfaces_of_clients_are_declared(legacy: Rig) -> None:
    """What the model of a client may call while it samples, and MCP Apps: the gateway itself
    declares both, or such tools would be listed for nobody.
    """
    needs = {"sample": "sampling tools", "roots": f"extensions {APPS_EXTENSION}"}
    await lists_by(legacy, needs)
    everything = list(TOOLS)
    for more, hidden in ((0, {"sample", "roots"}), (SAMPLING_TOOLS, {"roots"}), (APPS, {"sample"})):
        wanted = [name for name in everything if name not in hidden]
        assert await listed(legacy, declaration(ROOTS | SAMPLING | more)) == wanted


async def test_the_gateway_is_listed_everything_in_either_era(rig: Rig) -> None:
    if rig.server is not None:
        rig.server.script.needs, rig.server.script.needed_always = NEEDS, True
    else:
        await rig.reconfigure(args=("--needs", json.dumps(NEEDS), "--needed-always"))
    async with asyncio.timeout(BOUND_S):
        link = await rig.pool.upstream("up").own_link()
        own = await rig.pool.upstream("up").lists.over(link)
    assert [tool["name"] for tool in own.tools] == list(TOOLS)
