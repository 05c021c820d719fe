"""Upstreams that speak both eras, or the newer one alone, and clients of either era."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingClient
from armory.testing.upstreams.tools import TOOLS
from armory.testing.waiting import until
from armory.upstreams.gateway_client import OWNER
from tests.contract.links import BOUND_S, Rig, open_rig

pytestmark = pytest.mark.anyio

SAID = {"role": "assistant", "x": 1}
ABLE = {"sampling": {}, "roots": {}}


def able() -> RecordingClient:
    return RecordingClient(
        ABLE, answers={"sampling/createMessage": SAID, "roots/list": {"roots": []}}
    )


def of_session(name: str, client: RecordingClient) -> Owner:
    return Owner(ANONYMOUS, name, client)


async def era_of(rig: Rig, owner: Owner) -> str:
    return (await rig.link(owner)).era


@pytest.fixture(params=["http-both", "http-both-stream", "stdio-both"])
async def both(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async for rig in open_rig(request.param):
        yield rig


@pytest.fixture(params=["http-modern", "stdio-modern"])
async def modern_alone(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async for rig in open_rig(request.param):
        yield rig


async def test_a_client_with_a_handshake_is_asked_as_its_own_era_asks(both: Rig) -> None:
    own = await both.pool.upstream("up").own_link()
    assert own.era == "modern"
    client = able()
    owner = of_session("one", client)
    answer: Any = (await both.call("sample", client=client, owner=owner))["structuredContent"]
    assert answer["result"] == SAID
    assert await era_of(both, owner) == "legacy"
    # nobody else is served differently, and the gateway's own session goes on
    assert both.pool.era("up") == "modern"
    assert await both.pool.upstream("up").own_link() is own
    modern = able()
    asked = await both.call("input", client=modern)
    assert asked["resultType"] == "input_required"
    assert await era_of(both, Owner(ANONYMOUS)) == "modern"
    assert await era_of(both, of_session("quiet", RecordingClient())) == "modern"


async def test_calls_that_ask_at_once_are_answered(both: Rig) -> None:
    await both.pool.upstream("up").own_link()
    client = able()
    client.hold.clear()
    owner = of_session("one", client)
    calls = [both.call("sample", client=client, owner=owner) for _ in range(6)]
    tasks = [asyncio.create_task(call) for call in calls]
    await until(lambda: len(client.asked) == 6, BOUND_S)
    client.hold.set()
    async with asyncio.timeout(BOUND_S):
        answers = await asyncio.gather(*tasks)
    assert [answer["structuredContent"].get("result") for answer in answers] == [SAID] * 6


@pytest.mark.parametrize("isolation", ["session", "shared"])
async def test_isolation_decides_who_shares_it(both: Rig, isolation: str) -> None:
    await both.reconfigure(isolation=isolation)
    await both.pool.upstream("up").own_link()
    clients = [able(), able()]
    owners = [of_session(str(number), client) for number, client in enumerate(clients)]
    sessions: set[str] = set()
    for client, owner in zip(clients, owners, strict=True):
        answer = (await both.call("sample", client=client, owner=owner))["structuredContent"]
        assert answer["result"] == SAID
        told = await both.call("who", client=client, owner=owner)
        sessions.add(str(told["structuredContent"]["session"]))
    assert len(sessions) == (2 if isolation == "session" else 1)


async def test_its_session_ends_with_it(both: Rig) -> None:
    await both.pool.upstream("up").own_link()
    client = able()
    before = both.pool.status()["up"].sessions.open
    await both.call("sample", client=client, owner=of_session("one", client))
    assert both.pool.status()["up"].sessions.open == before + 1
    await both.pool.release_session("one")
    assert both.pool.status()["up"].sessions.open == before


async def test_lists_are_those_of_the_clients_own_session(both: Rig) -> None:
    await both.pool.upstream("up").own_link()
    owner = of_session("one", able())
    lists = await both.pool.fetch_lists("up", owner)
    own = await both.pool.fetch_lists("up", OWNER)
    assert lists.tools == own.tools
    assert await era_of(both, owner) == "legacy"


async def test_what_is_listed_by_declaration_is_listed_with_a_handshake(both: Rig) -> None:
    needs = {"sample": "sampling", "roots": "roots"}
    if both.server is not None:
        both.server.script.needs = needs
    else:
        await both.reconfigure(args=("--needs", json.dumps(needs)))
    own = await both.pool.fetch_lists("up", OWNER)
    before = both.pool.status()["up"].sessions.open
    lists = await both.pool.fetch_lists_for("up", {"roots": {}}, handshake=True)
    assert [t["name"] for t in own.tools] == list(TOOLS)
    assert [t["name"] for t in lists.tools] == [name for name in TOOLS if name != "sample"]
    # neither the verdict nor anybody's session is another one for that
    assert both.pool.era("up") == "modern"
    assert both.pool.status()["up"].sessions.open == before
    assert (await both.pool.upstream("up").own_link()).era == "modern"


async def test_without_a_handshake_there_is_nothing_to_list_with_one(modern_alone: Rig) -> None:
    pool = modern_alone.pool
    await pool.upstream("up").own_link()
    assert pool.may_shake_hands("up")
    with pytest.raises(UpstreamUnavailable, match="takes no handshake"):
        await pool.fetch_lists_for("up", {"roots": {}}, handshake=True)
    assert not pool.may_shake_hands("up")


async def test_without_a_handshake_the_newer_era_serves_everybody(modern_alone: Rig) -> None:
    rig = modern_alone
    await rig.pool.upstream("up").own_link()
    client = able()
    owner = of_session("one", client)
    await rig.pool.settle("up", owner)
    assert rig.pool.key("up", owner) == ANONYMOUS.key
    asked = await rig.call("input", client=client, owner=owner)
    assert asked["resultType"] == "input_required"
    assert rig.pool.status()["up"].sessions.open == 2  # the gateway's own, and the principal's
    tries = len(_handshakes(rig))
    other = able()
    await rig.call("echo", client=other, owner=of_session("two", other))
    assert len(_handshakes(rig)) == tries  # it is known now


async def test_a_first_call_finds_it_out_as_well(modern_alone: Rig) -> None:
    client = able()
    owner = of_session("one", client)
    asked = await modern_alone.call("input", client=client, owner=owner)
    assert asked["resultType"] == "input_required"
    assert modern_alone.pool.key("up", owner) == ANONYMOUS.key


@pytest.mark.parametrize(("pin", "era"), [("2026-07-28", "modern"), ("2025-11-25", "legacy")])
async def test_a_pin_is_heeded(both: Rig, pin: str, era: str) -> None:
    await both.reconfigure(protocol=pin)
    await both.pool.upstream("up").own_link()
    client = able()
    for owner in (Owner(ANONYMOUS), of_session("one", client)):
        assert await era_of(both, owner) == era


def _handshakes(rig: Rig) -> list[Any]:
    if rig.server is None:
        return []
    return [body for _, body in rig.server.requests if body.get("method") == "initialize"]
