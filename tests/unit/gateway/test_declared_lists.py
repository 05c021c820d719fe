"""Lists for clients that can be asked less: who is shown which, how often upstreams are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.gateway.endpoint import ALL
from armory.gateway.requests import ClientRequest
from armory.gateway.settings import GatewaySettings
from armory.gateway.subscription import Subscription
from armory.gateway.views import declared_lists, principal_lists
from armory.protocol.capabilities import (
    APPS,
    HANDSHAKE,
    ROOTS,
    SAMPLING,
    SAMPLING_TOOLS,
    answers_of,
    declaration,
    session_answers,
)
from armory.protocol.capabilities import EVERYTHING as ALL_BITS
from armory.protocol.methods import TOOLS_CHANGED
from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS, Era
from armory.security.policy import Policy, Rule
from armory.testing.front import tool

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench, NotingClient

pytestmark = pytest.mark.anyio
EVERYTHING = dict(declaration(ALL_BITS))
BOUND_S = 10


def offers(bench: Bench, **needs: str) -> None:
    """Have the upstream list these tools, each to clients alone that declare a capability."""
    upstream = bench.pool.upstreams["up"]
    plain = upstream.lists

    def lists_for(capabilities: Mapping[str, Any]) -> ServerLists:
        more = [tool(name, "") for name, need in needs.items() if need in capabilities]
        return replace(plain, tools=[*plain.tools, *more])

    upstream.lists_for = lists_for
    upstream.lists = lists_for(EVERYTHING)
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    bench.gateway.reconfigure(settings=GatewaySettings(by_capabilities={"up": 1}))


async def shown(
    bench: Bench,
    client: NotingClient,
    capabilities: dict[str, Any],
    *,
    current: bool = True,
    everything: bool = False,
    era: Era = "modern",
) -> set[str]:
    """The tools beyond the first six that a client sees."""
    client.capabilities = capabilities
    version = (MODERN_VERSIONS if era == "modern" else LEGACY_VERSIONS)[-1]
    request = ClientRequest(ANONYMOUS, client, era, version, everything=everything)
    async with asyncio.timeout(BOUND_S):
        context = await bench.gateway.context(request, own_lists="current" if current else "known")
    return {name for name in context.view.catalog.tools if not name.startswith("up__tool")}


async def test_each_is_shown_what_the_upstream_lists_for_one_like_it(bench: Bench) -> None:
    offers(bench, draws="sampling", opens="roots")
    client = bench.client
    assert await shown(bench, client, {}) == set()
    assert await shown(bench, client, {"sampling": {}}) == {"up__draws"}
    assert await shown(bench, client, {"roots": {}}) == {"up__opens"}
    assert await shown(bench, client, EVERYTHING) == {"up__draws", "up__opens"}
    asked = len(bench.pool.listed_for)
    assert await shown(bench, client, {}, current=False) == set()
    assert await shown(bench, client, {"roots": {"listChanged": True}}) == {"up__opens"}
    assert await shown(bench, client, {}, everything=True) == {"up__draws", "up__opens"}
    assert len(bench.pool.listed_for) == asked == 4
    assert bench.pool.listed_for[:2] == [("up", {}), ("up", EVERYTHING)]
    await bench.gateway.close()


@pytest.mark.parametrize("capabilities", [{}, {"roots": {}}])
async def test_what_a_new_session_does_not_know_yet_is_shown_all_the_same(
    bench: Bench, capabilities: dict[str, Any]
) -> None:
    """As of a server that learns its tools from others, and announces them a while after its
    start.
    """
    offers(bench)
    upstream = bench.pool.upstreams["up"]
    late = replace(upstream.lists, tools=[*upstream.lists.tools, tool("late", "")])
    upstream.lists_for, upstream.lists = (lambda _: replace(late, tools=late.tools[:-1])), late
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    for _ in range(2):
        assert await shown(bench, bench.client, capabilities) == {"up__late"}
    assert bench.pool.listed_for == [("up", {}), ("up", EVERYTHING)]
    await bench.gateway.close()


async def test_an_upstream_that_does_not_care_is_asked_once(bench: Bench) -> None:
    offers(bench)
    for capabilities in ({"roots": {}}, {}, {"sampling": {}}, {"elicitation": {}}):
        assert await shown(bench, bench.client, capabilities) == set()
        assert not bench.gateway.declared_lists.concern(answers_of(capabilities), current=False)
    assert bench.pool.listed_for == [("up", {})]
    await bench.gateway.close()


@pytest.mark.parametrize("needs", [{}, {"draws": "sampling"}])
async def test_other_settings_ask_only_another_server_again(
    bench: Bench, needs: dict[str, str]
) -> None:
    offers(bench, **needs)
    assert await shown(bench, bench.client, {}) == set()
    once = len(bench.pool.listed_for)
    assert once == (2 if needs else 1)
    same = GatewaySettings(by_capabilities={"up": 1, "new": 1}, max_tools=3)
    bench.gateway.reconfigure(settings=same)
    assert await shown(bench, bench.client, {}) == set()
    assert len(bench.pool.listed_for) == once
    bench.gateway.reconfigure(settings=replace(same, by_capabilities={"up": 2}))
    assert await shown(bench, bench.client, {}) == set()
    assert len(bench.pool.listed_for) == 2 * once
    await bench.gateway.close()


async def test_nobody_else_asks_the_upstream(bench: Bench) -> None:
    offers(bench, draws="sampling")
    await shown(bench, bench.client, EVERYTHING)
    await shown(bench, bench.client, {}, current=False)
    await shown(bench, bench.client, {}, everything=True)
    bench.pool.upstreams["up"].era = "modern"
    assert await shown(bench, bench.client, {}) == {"up__draws"}
    assert bench.pool.listed_for == []
    await bench.gateway.close()


async def test_one_that_cannot_be_asked_shows_what_it_shows_everybody(bench: Bench) -> None:
    offers(bench, draws="sampling")

    def fails(capabilities: Mapping[str, Any]) -> ServerLists:
        raise UpstreamUnavailable(f"down, {capabilities}", upstream="up")

    bench.pool.upstreams["up"].lists_for = fails
    for _ in range(3):
        assert await shown(bench, bench.client, {}) == {"up__draws"}
    assert len(bench.pool.listed_for) == 1
    await bench.gateway.close()


async def test_an_upstream_of_both_eras_is_asked_as_its_client_is_served(bench: Bench) -> None:
    offers(bench, draws="sampling", opens="roots")
    upstream, both = bench.pool.upstreams["up"], {"up__draws", "up__opens"}
    upstream.era, upstream.shakes_hands = "modern", True
    client = bench.client
    assert await shown(bench, client, {"roots": {}}, era="legacy") == {"up__opens"}
    assert await shown(bench, client, {"sampling": {}}, era="legacy") == {"up__draws"}
    for current in (True, False):
        assert await shown(bench, client, EVERYTHING, era="legacy", current=current) == both
    assert bench.pool.listed_for == [
        ("up", {"roots": {}}), ("up", {"sampling": {}}), ("up", EVERYTHING),
    ]  # fmt: skip
    assert await shown(bench, client, {"roots": {}}, era="legacy", current=False) == {"up__opens"}
    # Who cannot be asked is served in the newer era, as are clients of that era: they see its list.
    assert await shown(bench, client, {}, era="legacy") == both
    assert await shown(bench, client, {"roots": {}}) == both
    upstream.shakes_hands = False
    assert await shown(bench, client, {"elicitation": {}}, era="legacy") == both
    assert len(bench.pool.listed_for) == 3
    await bench.gateway.close()


async def test_what_the_older_era_alone_offers_is_shown_to_whom_it_serves(bench: Bench) -> None:
    offers(bench)
    upstream = bench.pool.upstreams["up"]
    upstream.era, upstream.shakes_hands = "modern", True
    older = replace(upstream.lists, tools=[*upstream.lists.tools, tool("older", "")])
    upstream.lists_for = lambda _: older
    assert await shown(bench, bench.client, EVERYTHING) == set()
    assert await shown(bench, bench.client, EVERYTHING, era="legacy") == {"up__older"}
    await bench.gateway.close()


async def test_news_for_clients_that_are_alike_reach_those_with_a_handshake(bench: Bench) -> None:
    heard: list[int] = []
    for answers in (ROOTS, ROOTS | HANDSHAKE, SAMPLING | HANDSHAKE):
        bench.gateway.changes.add(
            Subscription(ANONYMOUS, ALL, lambda m, _, a=answers: heard.append(a), answers=answers)
        )
    bench.gateway.changes.tell_alike("up", ROOTS, frozenset({TOOLS_CHANGED}))
    assert set(heard) == {ROOTS, ROOTS | HANDSHAKE}
    heard.clear()
    bench.gateway.changes.tell_alike("up", ROOTS | HANDSHAKE, frozenset({TOOLS_CHANGED}))
    assert heard == [ROOTS | HANDSHAKE]
    heard.clear()
    bench.gateway.reconfigure(policy=Policy([Rule(allow=("other__*",))]))
    heard.clear()
    bench.gateway.changes.tell_alike("up", ROOTS, frozenset({TOOLS_CHANGED}))
    assert heard == []  # of what policy hides, nobody hears that it changed


async def test_lists_that_come_late_are_told_of(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers(bench, draws="sampling")
    monkeypatch.setattr(declared_lists, "FETCH_S", 0)
    come, heard = asyncio.Event(), asyncio.Queue[str]()
    fetch = bench.pool.fetch_lists_for

    async def waits(
        server: str, capabilities: Mapping[str, Any], *, handshake: bool = False
    ) -> ServerLists:
        await come.wait()
        return await fetch(server, capabilities, handshake=handshake)

    monkeypatch.setattr(bench.pool, "fetch_lists_for", waits)
    for answers in (0, ALL_BITS):
        bench.gateway.changes.add(
            Subscription(
                ANONYMOUS, ALL, lambda m, _, a=answers: heard.put_nowait(f"{a} {m}"),
                answers=answers,
            )
        )  # fmt: skip
    assert await shown(bench, bench.client, {}) == {"up__draws"}
    come.set()
    async with asyncio.timeout(BOUND_S):
        assert await heard.get() == f"0 {TOOLS_CHANGED}"
    assert heard.empty()
    assert await shown(bench, bench.client, {}) == set()
    await bench.gateway.close()


def test_a_listing_ends_before_clients_give_it_up() -> None:
    """`claude mcp list` (2.1.332) and Qwen Code (0.24.4) take a server for failed after five
    seconds, in which they also connect.
    """
    assert declared_lists.FETCH_S <= 3
    assert principal_lists.FETCH_S <= 3


async def test_who_waited_in_vain_waits_no_more_for_who_comes_after(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers(bench, draws="sampling")
    never = asyncio.Event()

    async def waits(
        server: str, capabilities: Mapping[str, Any], *, handshake: bool = False
    ) -> None:
        await never.wait()

    monkeypatch.setattr(bench.pool, "fetch_lists_for", waits)
    monkeypatch.setattr(declared_lists, "FETCH_S", 0)
    assert await shown(bench, bench.client, {}) == {"up__draws"}
    monkeypatch.setattr(declared_lists, "FETCH_S", 10 * BOUND_S)
    monkeypatch.setattr(declared_lists, "HURRY_S", 0)
    up = bench.pool.upstreams["up"]
    bench.pool.upstreams["new"] = replace(up, lists=replace(up.lists, tools=[tool("one", "")]))
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    bench.gateway.reconfigure(settings=GatewaySettings(by_capabilities={"up": 1, "new": 1}))
    assert await shown(bench, bench.client, {}) == {"up__draws", "new__one"}
    await bench.gateway.close()


async def test_a_change_is_looked_at_again_after_a_pause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declared_lists, "PAUSE_S", 0)
    offers(bench, draws="sampling")
    assert await shown(bench, bench.client, {}) == set()
    upstream = bench.pool.upstreams["up"]
    upstream.lists_for = None
    upstream.lists = replace(upstream.lists, tools=[*upstream.lists.tools, tool("more", "")])
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    assert await shown(bench, bench.client, {}) == {"up__draws", "up__more"}
    await bench.gateway.close()


def possible() -> list[int]:
    """All that can be declared: no sampling, no tools there."""
    every = range(ALL_BITS + 1)
    return [answers for answers in every if answers & SAMPLING or not answers & SAMPLING_TOOLS]


@pytest.mark.parametrize("answers", possible())
def test_what_is_declared_for_an_answer_is_read_again(answers: int) -> None:
    assert answers_of(declaration(answers)) == answers
    alike = session_answers(declaration(answers))
    assert alike == (answers | HANDSHAKE if answers & ~APPS else answers)
    assert declaration(alike) == declaration(answers)
    assert answers_of({"elicitation": {}}) == answers_of({"elicitation": {"form": {}}})
