"""Whoever has many requests under way begins one in a turn, where others ask something as well.

Owns: `armory.wire.sessions.turns.Shares`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from armory.wire.sessions.turns import (
    AT_ONCE_S,
    DEBT_S,
    KEPT,
    LONG_SHARE,
    LONG_STEP_S,
    MANY,
    PRECISE_S,
    RECENT_S,
    SHARE,
    VERY_LONG_AT_ONCE_S,
    VERY_LONG_SHARE,
    Shares,
)

pytestmark = pytest.mark.anyio
COUNT = 40


class Asked:
    """Requests that begin, each in which round of the loop, and stay under way until `end`."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self.round = 0
        self.begun: Counter[int] = Counter()
        self.end = asyncio.Event()

    async def ask(self, caller: str) -> None:
        account = self._shares.account(caller)
        crowded = self._shares.enter(account)
        try:
            if crowded:
                await self._shares.turn(account)
            self.begun[self.round] += 1
            await self.end.wait()
        finally:
            self._shares.leave(account)

    async def all_begun(self, count: int) -> None:
        async with asyncio.timeout(30):
            while self.begun.total() < count:
                await asyncio.sleep(0)
                self.round += 1


async def test_beside_others_one_begins_in_a_turn_once_many_are_under_way() -> None:
    shares = Shares()
    other, much = Asked(shares), Asked(shares)
    async with asyncio.TaskGroup() as group:
        group.create_task(other.ask("other"))
        await other.all_begun(1)
        for _ in range(COUNT):
            group.create_task(much.ask("much"))
        await much.all_begun(COUNT)
        assert sorted(much.begun.values())[-1] == MANY
        assert sorted(much.begun.values())[-2] == 1
        few = Asked(shares)  # whoever asks little begins at once
        few_task = group.create_task(few.ask("few"))
        await few.all_begun(1)
        assert few.round == 1
        for asked in (other, much, few):
            asked.end.set()
        await few_task
    assert not shares.enter(shares.account("much"))  # nothing is left of all that


async def test_alone_nobody_waits() -> None:
    shares = Shares()
    alone = Asked(shares)
    async with asyncio.TaskGroup() as group:
        for _ in range(COUNT):
            group.create_task(alone.ask("alone"))
        await alone.all_begun(COUNT)
        assert alone.round == 1
        alone.end.set()


async def test_one_that_is_given_up_leaves_its_turn() -> None:
    shares = Shares()
    asked = Asked(shares)
    async with asyncio.TaskGroup() as group:
        group.create_task(asked.ask("other"))
        tasks = [group.create_task(asked.ask("much")) for _ in range(COUNT)]
        for task in tasks[MANY:]:
            task.cancel()
        await asked.all_begun(1 + MANY)
        await asyncio.wait(tasks[MANY:], timeout=30)
        assert all(task.cancelled() for task in tasks[MANY:])
        asked.end.set()
    assert not shares.enter(shares.account("much"))


class Clock:
    """Seconds, as the test says."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def _used(shares: Shares, clock: Clock, caller: str, seconds: float) -> None:
    clock.now += seconds
    shares.account(caller).spend(seconds)


def _has_to_wait(shares: Shares, caller: str) -> bool:
    account = shares.account(caller)
    has_to = shares.enter(account)
    shares.leave(account)
    return has_to


def _seen_closely(shares: Shares, clock: Clock, caller: str) -> None:
    """It seemed to use too much once, so that its own time counts from now on."""
    _used(shares, clock, caller, 0.1)
    assert not _has_to_wait(shares, "another")
    assert not _has_to_wait(shares, caller)
    assert shares.account(caller).clock is time.thread_time


async def test_whose_steps_only_wait_is_not_held_up() -> None:
    clock = Clock()
    shares = Shares(clock)
    account = shares.account("good")
    for _ in range(100):
        assert not _has_to_wait(shares, "other")
        assert not _has_to_wait(shares, "good")
        begun = account.clock()
        clock.now += 0.01  # of the wall, none of it its own
        account.spend(account.clock() - begun)
    clock.now += PRECISE_S
    assert not _has_to_wait(shares, "other")
    assert not _has_to_wait(shares, "good")
    assert account.clock is clock, "and as cheaply as before in the end"


async def test_beside_others_one_caller_has_its_share_of_the_loop() -> None:
    clock = Clock()
    shares = Shares(clock)
    busy = 0.0
    for _ in range(1_000):  # without pause, and others ask all the time
        assert not _has_to_wait(shares, "good"), "whoever takes little never waits"
        if _has_to_wait(shares, "evil"):
            clock.now += 0.0001
        else:
            _used(shares, clock, "evil", 0.001)
            busy += 0.001
    assert busy <= SHARE * (clock.now - 1_000.0) + 2 * AT_ONCE_S
    assert busy >= SHARE * (clock.now - 1_000.0) - 2 * AT_ONCE_S


async def test_several_clients_of_one_who_takes_a_tenth_of_the_loop_never_wait() -> None:
    clock = Clock()
    shares = Shares(clock)
    _seen_closely(shares, clock, "good")
    clock.now += 1.0
    for _ in range(100):  # a search and six calls a tenth of a second, one close after the other
        for longest_step in (0.002, *[0.0005] * 6):
            assert not _has_to_wait(shares, "other")
            assert not _has_to_wait(shares, "good")
            _used(shares, clock, "good", longest_step)
            _used(shares, clock, "good", 0.0005)
            clock.now += 0.004
        clock.now += 0.06


async def test_one_long_step_is_dearer_than_many_short_ones() -> None:
    clock = Clock()
    short, long = (Shares(clock).account("evil") for _ in range(2))
    for _ in range(10):
        short.spend(LONG_STEP_S)
    long.spend(10 * LONG_STEP_S)
    begun = clock.now - AT_ONCE_S
    assert short.free_at == pytest.approx(begun + 10 * LONG_STEP_S / SHARE)
    assert long.free_at == pytest.approx(begun + LONG_STEP_S / SHARE + 9 * LONG_STEP_S / LONG_SHARE)


async def test_very_long_steps_take_hardly_any_of_the_loop_after_a_few() -> None:
    clock = Clock()
    shares = Shares(clock)
    _seen_closely(shares, clock, "evil")
    at_first, later, begun = 0, 0.0, clock.now
    while clock.now < begun + 100.0:  # without pause, and others ask all the time
        assert not _has_to_wait(shares, "good")
        if _has_to_wait(shares, "evil"):
            clock.now += 0.01
        else:
            _used(shares, clock, "evil", 0.014)
            if clock.now < begun + 2.0:
                at_first += 1
            elif clock.now > begun + 20.0:
                later += 0.014
    assert at_first >= VERY_LONG_AT_ONCE_S * VERY_LONG_SHARE / 0.01
    assert later <= 0.01 * 80.0


async def test_one_step_is_paid_off_soon_however_long_it_was() -> None:
    clock = Clock()
    shares = Shares(clock)
    _seen_closely(shares, clock, "once")
    _used(shares, clock, "once", 30.0)
    assert not _has_to_wait(shares, "another")
    assert _has_to_wait(shares, "once")
    clock.now += DEBT_S
    assert not _has_to_wait(shares, "another")
    assert not _has_to_wait(shares, "once")


async def test_whoever_waits_goes_on_when_others_ask_no_more() -> None:
    shares = Shares()
    account = shares.account("evil")
    for _ in range(2):  # once by the wall, once by the thread's own time
        account.spend(1.0)
        for one in (shares.account("good"), account):
            shares.enter(one)
            shares.leave(one)
    begun = asyncio.get_running_loop().time()
    await asyncio.wait_for(shares.turn(account), DEBT_S)
    assert asyncio.get_running_loop().time() - begun < DEBT_S / 2


async def test_whoever_took_too_much_is_free_where_nobody_else_asks() -> None:
    clock = Clock()
    shares = Shares(clock)
    _seen_closely(shares, clock, "much")
    _used(shares, clock, "much", 0.5)
    assert not _has_to_wait(shares, "other")
    assert _has_to_wait(shares, "much")
    clock.now += RECENT_S
    shares.account("much").free_at = clock.now + 1
    assert not _has_to_wait(shares, "much"), "the other one has gone"


async def test_another_connection_is_no_other_caller() -> None:
    clock = Clock()
    shares = Shares(clock)
    _seen_closely(shares, clock, "evil")
    _used(shares, clock, "evil", 0.1)
    assert not _has_to_wait(shares, "good")
    for caller in range(KEPT):  # so many others do not make it forgotten
        shares.account(f"one of many {caller}")
    assert _has_to_wait(shares, "evil")


class Connection:
    """One of somebody unknown."""

    account = None


async def test_those_who_are_refused_wait_for_each_other_beside_others() -> None:
    clock = Clock()
    shares = Shares(clock)
    unknown, turns = Connection(), 0
    await shares.refused(unknown)
    account = shares.account("good")
    shares.enter(account)
    unknown.account.spend(0.1)  # type: ignore[attr-defined]
    await shares.refused(unknown)
    unknown.account.spend(0.1)  # type: ignore[attr-defined]
    refused = asyncio.ensure_future(shares.refused(Connection()))
    while not refused.done() and turns < 1_000_000:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 2
    assert account.free_at < clock.now, "nothing of that is anybody else's"
