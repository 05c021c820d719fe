"""Changes and messages that thousands of clients hear of, or that are meant for hardly any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from armory.domain.principal import Principal
from armory.gateway.changes import rounds
from armory.gateway.changes.rounds import Rounds
from armory.protocol.link import Owner
from armory.protocol.methods import LOGGED, RESOURCE_UPDATED
from armory.protocol.session_events import Notified
from armory.testing.front import raws, tool
from armory.testing.waiting import until
from tests.unit.gateway.test_changes import OWNER, Listener, change

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


async def test_thousands_hear_of_a_change_a_few_at_a_time(bench: Bench) -> None:
    listeners = [Listener(bench) for _ in range(20_000)]
    gone = listeners[-1]
    tools = bench.pool.upstreams["up"].lists.tools
    change(bench, tools=[*tools, tool("new", "new")])
    at_once = sum(len(one.heard) for one in listeners)
    assert 0 < at_once < 10_000  # the event loop is others' meanwhile
    await bench.gateway.changes.remove(gone.subscription)
    change(bench, tools=tools)
    await until(lambda: all(len(one.heard) == 2 for one in listeners if one is not gone))
    assert len(gone.heard) < 2


async def test_who_takes_long_to_be_told_leaves_others_their_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(rounds, "perf_counter", lambda: now[0])
    told: list[object] = []

    def tell(listener: object) -> None:
        told.append(listener)
        now[0] += 0.02  # as for those of whom has to be found out first what they see

    going = Rounds()
    going.begin([Listener(bench).subscription for _ in range(20)], tell)
    assert len(told) == 1
    await until(lambda: len(told) == 20)


async def test_what_one_upstream_session_says_is_no_matter_of_the_others(bench: Bench) -> None:
    others = [Listener(bench, relays=True) for _ in range(3)]
    one = Listener(bench, principal=Principal("one"), session="s", relays=True)
    changes, owner = bench.gateway.changes, bench.pool.key("up", one.subscription.owner)
    changes.on_notification(Notified("up", owner, LOGGED, raws({"level": "error"})))
    assert [method for method, _ in one.heard] == [LOGGED]
    assert not any(other.heard for other in others)
    await changes.remove(one.subscription)
    changes.on_notification(Notified("up", owner, LOGGED, raws({"level": "error"})))
    assert len(one.heard) == 1


async def test_of_messages_to_thousands_too_many_at_once_are_dropped_and_counted(
    bench: Bench,
) -> None:
    dropped: list[str] = []
    changes = bench.gateway.changes
    changes._on_dropped = dropped.append  # pyright: ignore[reportPrivateUsage]
    listeners = [Listener(bench, relays=True) for _ in range(500)]
    for _ in range(1_000):
        changes.on_notification(Notified("up", OWNER, LOGGED, raws({"level": "error"})))
    assert len(dropped) > 500
    await until(lambda: {len(one.heard) for one in listeners} == {1_000 - len(dropped)})


async def test_an_update_is_a_matter_of_those_alone_who_watch_it(bench: Bench) -> None:
    changes, served = bench.gateway.changes, bench.pool.key
    one, other = Listener(bench), Listener(bench)
    for listener, uri in ((one, "a:1"), (other, "a:2")):
        await changes.resources.add(listener.subscription, "up", uri)
    looked: list[Owner] = []

    def key(server: str, owner: Owner) -> str:
        looked.append(owner)
        return served(server, owner)

    session = served("up", one.subscription.owner)
    bench.pool.key = key
    changes.on_notification(Notified("up", session, RESOURCE_UPDATED, raws({"uri": "a:1"})))
    assert [len(listener.heard) for listener in (one, other)] == [1, 0]
    assert len(looked) == 1, "of the thousands that watch something else none is looked at"
    await changes.remove(one.subscription)
    changes.on_notification(Notified("up", session, RESOURCE_UPDATED, raws({"uri": "a:1"})))
    assert len(one.heard) == 1


async def test_thousands_who_watch_the_same_are_told_some_at_a_time(bench: Bench) -> None:
    changes, listeners = bench.gateway.changes, [Listener(bench) for _ in range(500)]
    for listener in listeners:
        await changes.resources.add(listener.subscription, "up", "a:1")
    session = bench.pool.key("up", listeners[0].subscription.owner)
    changes.on_notification(Notified("up", session, RESOURCE_UPDATED, raws({"uri": "a:1"})))
    await until(lambda: all(len(one.heard) == 1 for one in listeners))
