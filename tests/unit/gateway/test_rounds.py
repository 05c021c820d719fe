"""Changes and messages that thousands of clients hear of, or that are meant for hardly any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from armory.domain.principal import Principal
from armory.protocol.methods import LOGGED
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


async def test_an_update_is_a_matter_of_those_alone_who_watch_anything(bench: Bench) -> None:
    changes, one = bench.gateway.changes, Listener(bench).subscription
    resources = changes.resources
    for leaves in (lambda: resources.remove(one, "up", "a:2"), lambda: changes.remove(one)):
        await resources.add(one, "up", "a:1")
        await resources.add(one, "up", "a:2")
        await resources.remove(one, "up", "a:1")
        assert resources.watching == {one}  # and none of the thousands that only have a session
        await leaves()
        assert not resources.watching
