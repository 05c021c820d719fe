"""Who hears of a change, and who watches which resource."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import UpstreamUnavailable
from armory.gateway.changes import rounds
from armory.gateway.endpoint import ALL
from armory.gateway.gateway import Gateway
from armory.gateway.settings import GatewaySettings, SetSpec
from armory.gateway.subscription import Subscription
from armory.gateway.tasks.register import Place
from armory.protocol.link import Owner, Params, Refused
from armory.protocol.methods import PROMPTS_CHANGED as PROMPTS
from armory.protocol.methods import RESOURCE_UPDATED as UPDATED
from armory.protocol.methods import RESOURCES_CHANGED as RESOURCES
from armory.protocol.methods import TOOLS_CHANGED as TOOLS
from armory.protocol.session_events import Notified
from armory.security.policy import Policy, Rule
from armory.testing.front import plain, raws, tool
from armory.upstreams.pool import Pool

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
OWNER = "anonymous:anonymous"


@pytest.fixture(autouse=True)
def told_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slice of a millisecond ends among the few who listen here, however slow the machine is."""
    monkeypatch.setattr(rounds, "perf_counter", lambda: 0.0)


class Listener:
    def __init__(self, bench: Bench, **more: Any) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        more.setdefault("principal", ANONYMOUS)
        more.setdefault("endpoint", ALL)
        self.subscription = Subscription(deliver=self.take, **more)
        bench.gateway.changes.add(self.subscription)

    def take(self, method: str, params: Params) -> None:
        self.heard.append((method, plain(params)))


def change(bench: Bench, **lists: Any) -> None:
    upstream = bench.pool.upstreams["up"]
    upstream.lists = replace(upstream.lists, **lists)
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))


async def test_only_those_who_see_a_change_hear_of_it(bench: Bench) -> None:
    rules = [Rule(who=("a",), allow=("*",)), Rule(who=("b",), allow=("up__tool1",))]
    bench.gateway.reconfigure(policy=Policy(rules))
    one = Listener(bench, principal=Principal("a"))
    other = Listener(bench, principal=Principal("b"))
    deaf = Listener(bench, principal=Principal("a"), lists=frozenset())
    tools = bench.pool.upstreams["up"].lists.tools
    change(bench, tools=[*tools, tool("new", "new")])
    assert (one.heard, other.heard) == ([(TOOLS, {})], [])
    change(bench, tools=[*tools[:1], tool("tool1", "changed"), *tools[2:]])
    assert other.heard == [(TOOLS, {})]
    change(bench, prompts=[], resources=[{"uri": "file:///a", "name": "n"}])
    assert [method for method, _ in one.heard[2:]] == [PROMPTS, RESOURCES]
    change(bench, templates=[])
    assert one.heard[-1] == (RESOURCES, {})
    assert deaf.heard == []
    count = len(one.heard)
    bench.gateway.publish(bench.gateway.view.catalog)
    bench.gateway.reconfigure()
    assert len(one.heard) == count
    bench.gateway.reconfigure(policy=Policy([Rule(allow=("up__tool1",))]))
    assert len(one.heard) == count + 2


async def test_what_was_prepared_is_served_unless_it_is_out_of_date(bench: Bench) -> None:
    heard = Listener(bench, principal=Principal("a"))
    upstream = bench.pool.upstreams["up"]
    upstream.lists = replace(upstream.lists, tools=[*upstream.lists.tools, tool("new", "new")])
    catalog = bench.pool.catalog(bench.gateway.view.catalog)
    bench.gateway.prepare(catalog)
    assert bench.gateway.view.catalog is not catalog
    bench.gateway.publish(catalog)
    assert bench.gateway.view.catalog is catalog
    assert heard.heard == [(TOOLS, {})]
    upstream.lists = replace(upstream.lists, tools=upstream.lists.tools[:-1])
    older = bench.pool.catalog(catalog)
    bench.gateway.prepare(older)
    policy = Policy([Rule(allow=("up__tool1",))])
    bench.gateway.reconfigure(policy=policy)
    bench.gateway.publish(older)
    assert bench.gateway.view.catalog is older
    assert bench.gateway.view.policy is policy


async def test_a_set_that_changes_is_a_change(bench: Bench) -> None:
    settings = GatewaySettings(sets={"x": SetSpec(tools=("*1",))})
    bench.gateway.reconfigure(settings=settings)
    endpoint = bench.gateway.view.endpoint("set", "x")
    assert endpoint is not None
    listener = Listener(bench, endpoint=endpoint)
    bench.gateway.reconfigure(settings=GatewaySettings(sets={"x": SetSpec(tools=("*2",))}))
    assert listener.heard == [(TOOLS, {})]
    bench.gateway.reconfigure(settings=GatewaySettings())
    assert len(listener.heard) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"pin": ("*1",)},
        {"server_pins": {"up": ("tool1",)}},
        {"without_query": "search"},
        {"full_list_limit": 0},
        {"search_tools": False},
        {"sets": {"x": SetSpec(("up",), query=("write a file",))}},
    ],
)
async def test_settings_that_change_what_is_listed_are_a_change(
    bench: Bench, changed: dict[str, Any]
) -> None:
    before = GatewaySettings(sets={"x": SetSpec(("up",))})
    bench.gateway.reconfigure(settings=before)
    endpoint = bench.gateway.view.endpoint("set", "x")
    own = bench.gateway.view.endpoint("server", "up")
    assert endpoint is not None
    assert own is not None
    listener, direct = Listener(bench, endpoint=endpoint), Listener(bench, endpoint=own)
    bench.gateway.reconfigure(settings=replace(before, result_formats={"up": "toon"}))
    assert listener.heard == []
    bench.gateway.reconfigure(settings=replace(before, **changed))
    assert listener.heard == [(TOOLS, {})]
    assert direct.heard == []


async def test_watching_counts(bench: Bench) -> None:
    changes = bench.gateway.changes
    one, two = Listener(bench), Listener(bench)
    await changes.resources.add(one.subscription, "up", "a:1")
    await changes.resources.add(one.subscription, "up", "a:1")
    await changes.resources.add(two.subscription, "up", "a:1")
    await changes.resources.add(two.subscription, "up", "a:2")
    assert bench.pool.subscriptions["up", OWNER] == {"a:1", "a:2"}
    await changes.resources.remove(one.subscription, "up", "a:1")
    await changes.resources.remove(one.subscription, "up", "a:1")
    assert bench.pool.subscriptions["up", OWNER] == {"a:1", "a:2"}
    bench.gateway.on_session_event(
        Notified("up", OWNER, "notifications/resources/updated", raws({"uri": "a:1"}))
    )
    bench.gateway.on_session_event(Notified("up", OWNER, "notifications/resources/updated", {}))
    bench.gateway.on_session_event(Notified("up", OWNER, "notifications/other", {}))
    assert one.heard == []
    assert two.heard == [("notifications/resources/updated", {"uri": "up+a:1"})]
    await changes.remove(two.subscription)
    assert bench.pool.subscriptions["up", OWNER] == frozenset()
    assert len(changes) == 1


async def test_sub_resources_of_what_is_watched_are_news(bench: Bench) -> None:
    bench.gateway.reconfigure(
        policy=Policy([Rule(deny=("up+file:///d/hidden*",)), Rule(allow=("*",))])
    )
    folder, bare, other = (Listener(bench) for _ in range(3))
    watches = bench.gateway.changes.resources
    await watches.add(folder.subscription, "up", "file:///d/")
    await watches.add(bare.subscription, "up", "file:///d")
    await watches.add(other.subscription, "up", "file:///d/s")

    def heard(uri: str) -> list[bool]:
        listeners = (folder, bare, other)
        for listener in listeners:
            listener.heard.clear()
        params = raws({"uri": uri, "x": 1})
        bench.gateway.on_session_event(Notified("up", OWNER, UPDATED, params))
        news = [(UPDATED, {"uri": f"up+{uri}", "x": 1})]
        assert all(listener.heard in ([], news) for listener in listeners)
        return [bool(listener.heard) for listener in listeners]

    assert heard("file:///d/") == [True, True, False]
    assert heard("file:///d/sub.txt") == [True, True, False]
    assert heard("file:///d/s/t/u") == [True, True, True]
    assert heard("file:///d") == [False, True, False]
    assert heard("file:///data/x") == [False, False, False]
    assert heard("file:///d/hidden/x") == [False, False, False]
    assert heard("file:///d/%68idden/x") == [False, False, False]
    assert heard("file:///d/" + "a/" * 100_000) == [False, False, False]


async def test_in_a_session_of_its_own_a_client_hears_what_the_upstream_counts_in(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(_server: str, owner: Owner) -> str:
        return f"{owner.principal.key}\n{owner.session_id}"

    monkeypatch.setattr(bench.pool, "key", key)
    one, two, idle = (Listener(bench, session=name) for name in ("one", "two", "idle"))
    for listener in (one, two):
        await bench.gateway.changes.resources.add(listener.subscription, "up", "urn:x:1")
    for session in ("one", "idle"):
        event = Notified("up", f"{OWNER}\n{session}", UPDATED, raws({"uri": "urn:part"}))
        bench.gateway.on_session_event(event)
    assert one.heard == [(UPDATED, {"uri": "up+urn:part"})]
    assert two.heard == idle.heard == []


async def test_a_refused_subscription_leaves_nothing(bench: Bench) -> None:
    listener = Listener(bench)
    allowed = bench.pool.set_subscriptions

    async def refuse(
        server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        if "bad:1" in uris or not uris:
            raise UpstreamUnavailable("no", upstream=server)
        await allowed(server, owner, uris)

    bench.pool.set_subscriptions = refuse
    changes = bench.gateway.changes
    with pytest.raises(UpstreamUnavailable):
        await changes.resources.add(listener.subscription, "up", "bad:1")
    assert listener.subscription.uris == set()
    await changes.resources.add(listener.subscription, "up", "a:1")
    await changes.remove(listener.subscription)
    assert len(changes) == 0


async def test_a_client_leaves_though_its_upstream_refuses_to_unsubscribe(bench: Bench) -> None:
    listener = Listener(bench)
    resources = bench.gateway.changes.resources
    await resources.add(listener.subscription, "up", "a:1")
    await resources.add(listener.subscription, "up", "a:2")

    async def refuse(
        server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        raise Refused("resources/unsubscribe", Raw(b'{"code":-32601,"message":"no"}'))

    bench.pool.set_subscriptions = refuse
    await bench.gateway.changes.remove(listener.subscription)
    assert listener.subscription.uris == set()
    assert len(resources) == 0


async def test_relayed_notifications_find_their_client(bench: Bench) -> None:
    tasks = Listener(bench, tasks=frozenset(("up:1",)))
    session = Listener(bench, session="s", relays=True)
    elsewhere = Listener(
        bench,
        endpoint=bench.gateway.view.endpoint("server", "up"),
        principal=Principal("x"),
        relays=True,
    )
    params = raws({"taskId": "1", "status": "working"})
    for principal in (ANONYMOUS, Principal("x")):
        await bench.register.enter(Place("up", principal.key, "1"), principal.key, None)
    bench.gateway.on_session_event(Notified("up", OWNER, "notifications/tasks", params))
    told = ("notifications/tasks", {"taskId": "up:1", "status": "working"})
    assert (tasks.heard, session.heard, elsewhere.heard) == ([told], [told], [])
    bench.gateway.on_session_event(Notified("up", "token:x", "notifications/tasks", params))
    assert elsewhere.heard == [("notifications/tasks", {"taskId": "1", "status": "working"})]
    bench.gateway.changes.tell_session("s", TOOLS)
    assert session.heard[-1] == (TOOLS, {})
    assert tasks.heard == [told]
    bench.gateway.on_session_event(Notified("none", OWNER, "notifications/tasks", params))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (TOOLS, {}),
        ("notifications/resources/updated", {"uri": "a:1"}),
        ("notifications/elicitation/complete", {"elicitationId": "e"}),
        ("notifications/vendor/x", {}),
    ],
)
async def test_what_a_removed_upstream_still_says_is_for_nobody(
    bench: Bench, method: str, params: dict[str, Any]
) -> None:
    endpoint = bench.gateway.view.endpoint("server", "up")
    gateway = Gateway(Pool())  # a reload has taken it away; calls in flight are let end
    notes: list[str] = []

    def heard(method: str, _params: Params) -> None:
        notes.append(method)

    listener = Subscription(ANONYMOUS, endpoint or ALL, heard, "s", uris={("up", "a:1")})
    gateway.changes.add(listener)
    gateway.on_session_event(Notified("up", OWNER, method, raws(params)))
    await gateway.close()
    assert notes == []


async def test_what_a_shared_session_says_to_nobody_is_dropped_and_counted(bench: Bench) -> None:
    dropped: list[str] = []
    bench.gateway.changes._on_dropped = dropped.append  # pyright: ignore[reportPrivateUsage]
    session = Listener(bench, session="s", relays=True)
    said = raws({"elicitationId": "e", "data": "secret"})
    for method in ("notifications/elicitation/complete", "notifications/message"):
        bench.gateway.on_session_event(Notified("up", "", method, said))
    bench.gateway.on_session_event(Notified("up", OWNER, "notifications/tasks", said))
    assert session.heard == []
    assert dropped == ["up"] * 3


async def test_what_nobody_knows_passes_at_the_upstreams_own_endpoint(bench: Bench) -> None:
    own = bench.gateway.view.endpoint("server", "up")
    direct = Listener(bench, endpoint=own, session="s", relays=True)
    other = Listener(bench, endpoint=own, principal=Principal("x"), session="t", relays=True)
    merged = Listener(bench, session="u", relays=True)
    said = raws({"uri": "file:///a", "n": 1})
    bench.gateway.on_session_event(Notified("up", OWNER, "notifications/vendor/x", said))
    bench.gateway.on_session_event(Notified("up", "", "notifications/vendor/x", said))
    assert direct.heard == [("notifications/vendor/x", {"uri": "file:///a", "n": 1})]
    assert (other.heard, merged.heard) == ([], [])
    bench.gateway.reconfigure(policy=Policy([Rule(allow=("up__tool1",))]))
    bench.gateway.on_session_event(Notified("up", OWNER, "notifications/vendor/y", said))
    assert "notifications/vendor/y" not in dict(direct.heard), "it may be of what policy bars"


def announced(bench: Bench, owner: str = "", method: str = TOOLS) -> None:
    bench.gateway.on_session_event(Notified("up", owner, method, {}))


def own_announces(server: str, owner: Owner) -> bool:
    del server, owner
    return True


async def test_an_announcement_without_a_difference_passes_where_the_upstream_is_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = bench.gateway.view.endpoint("server", "up")
    assert endpoint is not None
    direct, everything = Listener(bench, endpoint=endpoint), Listener(bench)
    deaf = Listener(bench, endpoint=endpoint, lists=frozenset({PROMPTS}))
    announced(bench)
    assert (direct.heard, everything.heard, deaf.heard) == ([(TOOLS, {})], [], [])
    monkeypatch.setattr(bench.pool, "announces", own_announces)
    announced(bench)  # its own session will say so
    assert len(direct.heard) == 1
    announced(bench, OWNER)
    announced(bench, "anonymous:somebody")
    assert len(direct.heard) == 2


async def test_who_has_a_session_alone_sees_what_is_listed_there_once_it_changes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(server: str, owner: Owner) -> str:
        del server
        return f"{OWNER}\n{owner.session_id}" if owner.session_id else owner.principal.key

    monkeypatch.setattr(bench.pool, "key", key)
    mine, other = Listener(bench, session="one"), Listener(bench, session="two")
    shared = bench.pool.upstreams["up"].lists
    extra = {"uri": "mem://session/one", "name": "mine"}
    own = replace(shared, resources=[*shared.resources, extra])

    async def fetch(server: str, owner: Owner, capabilities: object = None) -> Any:
        del server, capabilities
        return own if owner.session_id == "one" else shared

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    owner = mine.subscription.owner
    lists = bench.gateway.principal_lists
    assert not lists.has(owner.session_id, OWNER)
    announced(bench, f"{OWNER}\none", RESOURCES)
    assert lists.has(owner.session_id, OWNER)
    assert not lists.has(other.subscription.session, OWNER)
    await lists.prepare(owner, ALL, current=True)
    assert (mine.heard, other.heard) == ([(RESOURCES, {})], [])
    (held,) = lists.lists_for(owner, ALL)
    assert held.lists is not None
    assert extra in held.lists.resources
    await bench.gateway.session_ended("one")
    assert not lists.has(owner.session_id, OWNER)
    assert len(lists) == 0
    await bench.gateway.close()
