"""The lists of single principals: who waits for them, and for how long."""

from __future__ import annotations

import asyncio
import operator
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from armory.domain.catalog import LARGE, ServerLists
from armory.domain.principal import Principal
from armory.domain.tool import ToolRecord
from armory.errors import UpstreamUnavailable
from armory.gateway.endpoint import ALL
from armory.gateway.gateway import Gateway, Services
from armory.gateway.settings import GatewaySettings
from armory.gateway.views import list_store, principal_lists, principal_views
from armory.gateway.views.list_changes import changed_lists
from armory.gateway.views.principal_views import VIEWS, PlainPrivateTools
from armory.protocol.link import Owner
from armory.protocol.methods import TOOLS_CHANGED
from armory.protocol.session_events import Notified
from armory.security.policy import Policy, Rule
from armory.testing.front import tool
from armory.testing.waiting import until

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
ANN = Owner(Principal("ann"))


async def test_whoever_comes_while_lists_are_fetched_first_waits_for_them_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = asyncio.Event(), asyncio.Event()

    async def fetch(server: str, owner: Owner, _declared: object) -> ServerLists:
        asked.set()
        await told.wait()
        return bench.pool.upstreams[server].lists

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    bench.gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    lists = bench.gateway.principal_lists
    first = asyncio.create_task(lists.prepare(ANN, ALL, current=False))
    async with asyncio.timeout(30):
        await asked.wait()
        second = asyncio.create_task(lists.prepare(ANN, ALL, current=False))
        await asyncio.sleep(0)
        assert not second.done()
        told.set()
        await asyncio.gather(first, second)
    (held,) = lists.lists_for(ANN, ALL)
    assert held.lists is not None
    await bench.gateway.close()


async def test_who_may_see_nothing_of_a_server_lacks_nothing_of_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(server: str, _owner: Owner, _declared: object) -> ServerLists:
        raise UpstreamUnavailable("down", upstream=server)

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    rules = [Rule(who=("ann",), allow=("up__*",)), Rule(allow=("else__*",))]
    settings = GatewaySettings(personal={"up": "always"})
    bench.gateway.reconfigure(policy=Policy(rules), settings=settings)
    lacking: dict[str, str | None] = {}
    for who in ("ann", "bob"):
        asked = bench.context(principal=Principal(who))
        context = await bench.gateway.context(asked, own_lists="current")
        lacking[who] = context.view.lacks(context)
    assert lacking == {"ann": "without the lists of up, which have not come yet", "bob": None}
    await bench.gateway.close()


async def test_nothing_is_fetched_for_who_may_be_shown_nothing_of_a_server(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []

    async def fetch(server: str, owner: Owner, _declared: object) -> ServerLists:
        fetched.append(owner.principal.subject)
        return bench.pool.upstreams[server].lists

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    rules = [
        Rule(who=("ann",), allow=("up__*",)),
        Rule(who=("cid",), allow=("*",), deny=("up__*",)),  # its resources it may be shown
        Rule(allow=("else__*",)),
    ]
    settings = GatewaySettings(personal={"up": "always"})
    bench.gateway.reconfigure(policy=Policy(rules), settings=settings)
    for who in ("ann", "bob", "cid"):
        asked = bench.context(principal=Principal(who))
        context = await bench.gateway.context(asked, own_lists="current")
        assert bool(context.view.visible(context).tools.names) == (who == "ann")
    assert fetched == ["ann", "cid"]
    bench.gateway.reconfigure(policy=Policy())
    await bench.gateway.context(bench.context(principal=Principal("bob")), own_lists="current")
    assert fetched == ["ann", "cid", "bob"]
    await bench.gateway.close()


@pytest.mark.parametrize("more", [0, 1])
async def test_long_lists_are_gone_through_beside_the_loop_once_for_all_who_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    own = ServerLists(tools=[tool(f"own{number}", "mine") for number in range(LARGE + more)])
    made: list[int] = []
    go = threading.Event()
    build = principal_views.build_catalog

    def noted(*lists: Any, **named: Any) -> Any:
        made.append(threading.get_ident())
        if more:
            assert go.wait(10)
        return build(*lists, **named)

    async def fetch(_server: str, _owner: Owner, _declared: object) -> ServerLists:
        return own

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    monkeypatch.setattr(principal_views, "build_catalog", noted)
    gateway = bench.gateway
    gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    request = bench.context(principal=ANN.principal)
    leaving, *staying = (asyncio.create_task(gateway.context(request)) for _ in range(3))
    async with asyncio.timeout(10):
        await until(lambda: bool(made))
        leaving.cancel()
        go.set()
        views = [(await one).view for one in staying]
    assert len(views[0].catalog.tools) == LARGE + more
    assert views[0] is views[1]
    assert (await gateway.context(request)).view is views[0]
    (thread,) = made
    assert (thread == threading.get_ident()) == (not more)
    await gateway.close()


async def test_an_upstream_that_is_removed_leaves_the_others_to_whom_it_gave_lists(
    bench: Bench,
) -> None:
    gateway, pool = bench.gateway, bench.pool
    lists_of_other = ServerLists(tools=[tool("t", "t")])
    pool.upstreams["other"] = replace(pool.upstreams["up"], lists=lists_of_other)
    gateway.publish(pool.catalog(gateway.view.catalog))
    lists, alone = gateway.principal_lists, Owner(Principal("ann"), "one")
    lists.separate_client("up", alone, gateway.view)
    gateway.reconfigure(settings=GatewaySettings(personal={"other": "always"}))
    await lists.prepare(alone, ALL, current=True)
    del pool.upstreams["up"]
    await lists.prepare(alone, ALL, current=True)  # before the next snapshot
    gateway.publish(pool.catalog(gateway.view.catalog))
    await lists.prepare(alone, ALL, current=True)
    assert [held.server for held in lists.lists_for(alone, ALL)] == ["other"]
    gateway.reconfigure(settings=GatewaySettings())
    assert not lists.has("one", ANN.principal.key)
    await gateway.close()


async def test_lists_are_fetched_with_the_access_token_of_the_latest_request(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str | None] = []

    async def fetch(server: str, owner: Owner, _declared: object) -> ServerLists:
        used.append(owner.principal.credential)
        return bench.pool.upstreams[server].lists

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    gateway = bench.gateway
    gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    for token in ("first", "second"):
        await gateway.context(bench.context(principal=Principal("ann", credential=token)))
    gateway.principal_lists.on_list_changed("up", "")
    await until(lambda: len(used) == 2)
    assert used == ["first", "second"]
    await gateway.close()


async def listed(bench: Bench, *lists: ServerLists, monkeypatch: pytest.MonkeyPatch) -> None:
    """One caller after the other, `p0` first, is given lists of its own."""
    given = iter(lists)

    async def fetch(_server: str, _owner: Owner, _declared: object) -> ServerLists:
        return next(given)

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    bench.gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    for number in range(len(lists)):
        request = bench.context(principal=Principal(f"p{number}"))
        await bench.gateway.context(request, own_lists="current")


async def test_who_is_given_what_everybody_is_has_no_view_to_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = bench.gateway.view.catalog.servers["up"]
    again = replace(everybody, tools=[dict(entry) for entry in everybody.tools])
    await listed(bench, again, monkeypatch=monkeypatch)
    (held,) = bench.gateway.principal_lists.lists_for(Owner(Principal("p0")), ALL)
    assert held.lists is everybody
    context = await bench.gateway.context(bench.context(principal=Principal("p0")))
    assert context.view is bench.gateway.view
    await bench.gateway.close()


async def test_what_several_have_is_held_once_and_what_was_not_used_for_longest_is_let_go(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_store, "OWN_BYTES", 250)
    everybody = bench.gateway.view.catalog.servers["up"].tools

    def lists(name: str) -> ServerLists:
        tools = [*map(dict, everybody), tool(name, "mine")]
        return ServerLists(tools=tools, size_bytes=100 * len(tools))

    found = bench.gateway.principal_lists

    def kept(number: int) -> ServerLists | None:
        (held,) = found.lists_for(Owner(Principal(f"p{number}")), ALL)
        return held.lists

    await listed(bench, lists("a"), lists("a"), lists("b"), monkeypatch=monkeypatch)
    first, second, third = map(kept, range(3))
    assert first is second is not None
    assert third is not None
    assert all(map(operator.is_, third.tools, everybody))
    await listed(bench, *map(lists, "abcd"), monkeypatch=monkeypatch)
    assert len(found) == 2
    assert [kept(number) is not None for number in range(4)] == [False, False, True, True]
    await bench.gateway.close()


async def test_tools_that_only_some_have_are_searched_within_room_for_their_bytes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[list[str]] = []

    class Noting(PlainPrivateTools):
        async def index_private(self, tools: tuple[ToolRecord, ...]) -> None:
            searched.append([one.original_name for one in tools])

    def lists(name: str, size: int) -> ServerLists:
        return ServerLists(tools=[tool(name, "x" * size)], size_bytes=size)

    monkeypatch.setattr(principal_views, "EXTRA_BYTES", 10_000)
    services = Services(private_tools=Noting())
    gateway = Gateway(bench.pool, bench.retriever, services=services)
    gateway.publish(bench.pool.catalog())
    told = [lists("a", 4_000), lists("b", 4_000), lists("c", 4_000), lists("d", 20_000)]
    await listed(replace(bench, gateway=gateway), *told, monkeypatch=monkeypatch)
    assert searched == [["a"], ["a", "b"], ["b", "c"], ["d"]]
    await gateway.close()


@pytest.mark.parametrize(
    ("tools", "own", "size_bytes", "own_bytes", "room"),
    [
        (9, 0, 0, 0, 1),
        (8_000, 0, 0, 0, 3),
        (8_000, 8_000, 0, 0, 7),
        (900_000, 0, 0, 0, VIEWS),
        (9, 0, 16 << 20, 0, 5),
        (9, 9, 16 << 20, 2 << 20, 9),
        (9, 9, 64 << 20, 64 << 20, VIEWS),
    ],
)
async def test_long_lists_take_the_room_of_several_views(
    tools: int, own: int, size_bytes: int, own_bytes: int, room: int
) -> None:
    sizes = {"size_bytes": size_bytes, "own_bytes": own_bytes}
    assert principal_views.room_of(tools, own, **sizes) == room


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        ({"default": True, "type": "boolean"}, frozenset({"notifications/tools/list_changed"})),
        ({"default": 1.0, "type": "boolean"}, frozenset({"notifications/tools/list_changed"})),
        ({"type": "boolean", "default": 1}, frozenset[str]()),
    ],
)
def test_what_only_python_holds_to_be_equal_is_a_change(
    now: dict[str, Any], changed: frozenset[str]
) -> None:
    def lists(force: dict[str, Any]) -> ServerLists:
        schema = {"type": "object", "properties": {"force": force}}
        return ServerLists(tools=[{"name": "push", "inputSchema": schema}])

    before = lists({"default": 1, "type": "boolean"})
    assert changed_lists(before, lists(now)) == changed


async def test_who_shares_a_session_sees_what_is_listed_there_until_it_is_everybodys(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody need listen: a modern client sees it with its next request."""
    gateway, everybody = bench.gateway, bench.pool.upstreams["up"].lists
    gateway.reconfigure(settings=GatewaySettings(by_capabilities={"up": 1}))
    grown = replace(everybody, tools=[*everybody.tools, tool("grown", "grown")])
    lists, fetched = {"ann": grown}, list[str]()

    async def fetch(_server: str, owner: Owner, _declared: object) -> ServerLists:
        fetched.append(owner.principal.subject)
        return lists.get(owner.principal.subject, everybody)

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    news = Notified("up", ANN.principal.key, TOOLS_CHANGED, {})

    async def shown(who: str) -> bool:
        asked = bench.context(principal=Principal(who))
        context = await gateway.context(asked, own_lists="current")
        return "up__grown" in context.view.catalog.tools

    assert not await shown("ann")
    gateway.on_session_event(news)
    assert [await shown(who) for who in ("ann", "bob")] == [True, False]
    assert await shown("ann")  # from memory
    assert fetched == ["ann"]
    monkeypatch.setattr(principal_lists, "AWAITED_S", 0.0)
    lists.clear()  # its session began anew
    gateway.principal_lists.on_list_changed("up", news.owner)
    assert not await shown("ann")
    assert not gateway.principal_lists.has(None, news.owner)
    await gateway.close()


async def test_one_client_that_sees_no_difference_leaves_the_others_theirs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A principal's clients that declare different things have sessions of their own upstream."""
    gateway, everybody = bench.gateway, bench.pool.upstreams["up"].lists
    gateway.reconfigure(settings=GatewaySettings(by_capabilities={"up": 1}))
    grown = replace(everybody, tools=[*everybody.tools, tool("grown", "grown")])

    async def fetch(_server: str, _owner: Owner, declared: dict[str, Any]) -> ServerLists:
        return grown if declared else everybody

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    gateway.on_session_event(Notified("up", ANN.principal.key, TOOLS_CHANGED, {}))
    for capabilities in ({}, {"sampling": {}}, {}):
        bench.client.capabilities = capabilities
        asked = bench.context(principal=ANN.principal)
        context = await gateway.context(asked, own_lists="current")
        assert ("up__grown" in context.view.catalog.tools) == bool(capabilities)
    await gateway.close()


async def test_lists_that_are_the_gateways_stay_so_whatever_a_session_says(bench: Bench) -> None:
    gateway, key = bench.gateway, ANN.principal.key
    gateway.on_session_event(Notified("up", key, TOOLS_CHANGED, {}))  # `lists: shared`
    assert not gateway.principal_lists.has(None, key)
    gateway.reconfigure(settings=GatewaySettings(by_capabilities={"up": 1}))
    for other in ("", f"{key}\none", "token:bob"):
        gateway.on_session_event(Notified("up", other, TOOLS_CHANGED, {}))
        assert not gateway.principal_lists.has(None, key)
    await gateway.close()


async def test_of_callers_whose_sessions_list_something_else_only_so_many_are_remembered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(principal_lists, "ENTRIES", 2)
    gateway = bench.gateway
    gateway.reconfigure(settings=GatewaySettings(by_capabilities={"up": 1}))
    for who in "abc":
        gateway.on_session_event(Notified("up", f"token:{who}", TOOLS_CHANGED, {}))
    assert [gateway.principal_lists.has(None, f"token:{who}") for who in "abc"] == [
        False,
        True,
        True,
    ]
    await gateway.close()
