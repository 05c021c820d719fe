"""What the garbage collector is spared, and what it finds all the same."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from itertools import count

import pytest

from armory.runtime.memory import collecting
from armory.runtime.memory.collecting import (
    GROWN,
    LONG_S,
    NEW,
    QUIET,
    SELDOM_S,
    SPARED,
    WHOLE_S,
    Collector,
)


class Cycle:
    """Refers to itself: only the collector ends it."""

    def __init__(self) -> None:
        self.self = self


class Clock:
    """Stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(clock: Clock) -> Iterator[Collector]:
    made = Collector(spared=20_000, clock=clock, hidden=20_000, spent=lambda: 0.0)
    with made.in_charge():
        made.settle()
        yield made


def _data(count: int) -> list[list[object]]:
    """So many objects. Fewer count as new: of what other tests left some may end meanwhile."""
    return [[{"place": place}] for place in range(count)]


def test_no_full_collection_while_much_is_built(collector: Collector) -> None:
    full: list[int] = []

    def seen(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            full.append(1)

    gc.callbacks.append(seen)
    try:
        held = _data(200_000)
    finally:
        gc.callbacks.remove(seen)
    assert held
    assert not full


def test_much_that_is_new_is_set_aside_and_found_again_when_most_has_ended(
    collector: Collector, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "WHOLE", sys.maxsize)  # whatever other tests have left
    held = _data(200_000)
    cycle = Cycle()
    ended = weakref.ref(cycle)
    spared = gc.get_freeze_count()
    collector.look()
    assert gc.get_freeze_count() > spared + 100_000
    del cycle
    collector.look()
    assert ended() is not None  # among what was set aside
    del held[30_000:]  # what is left is more than is set aside unseen
    collector.look()
    assert ended() is not None  # too soon: going through everything takes long
    clock.now += WHOLE_S
    collector.look()
    assert ended() is None


def test_nothing_is_gone_through_for_what_ended_by_itself(
    collector: Collector, clock: Clock
) -> None:
    spared = gc.get_freeze_count()
    full = gc.get_stats()[2]["collections"]
    for _ in range(3):  # as much comes again, and is set aside again
        held = _data(100_000)
        collector.look()
        assert gc.get_freeze_count() > spared + 50_000
        del held
        clock.now += WHOLE_S
        collector.look()
    assert gc.get_stats()[2]["collections"] == full


def test_what_is_new_is_gone_through_where_it_is_not_much() -> None:
    collector = Collector(spared=10_000_000, clock=Clock())
    with collector.in_charge():
        collector.settle()
        cycle = Cycle()
        ended = weakref.ref(cycle)
        held = _data(100_000)
        del cycle
        assert ended() is not None
        collector.look()
        assert held
        assert ended() is None


def test_what_was_before_is_there_afterwards() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    with Collector().in_charge():
        assert min(gc.get_threshold()) > 1_000_000
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_what_is_large_is_gone_through_seldom(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "WHOLE", sys.getallocatedblocks())
    collector = Collector(spared=20_000, clock=clock, hidden=20_000)
    with collector.in_charge():
        collector.settle()
        cycle = Cycle()
        ended = weakref.ref(cycle)
        held = _data(sys.getallocatedblocks())
        collector.look()
        assert held
        assert ended() is not None
        del cycle
        clock.now += WHOLE_S
        collector.look()
        assert ended() is not None
        clock.now += SELDOM_S
        collector.look()
        assert ended() is None


def test_a_large_start_is_spared_and_a_small_one_is_gone_through_first(clock: Clock) -> None:
    collector = Collector(spared=20_000, clock=clock, hidden=20_000)
    full = gc.get_stats()[2]["collections"]
    with collector.in_charge():
        spared = gc.get_freeze_count()
        cycle = Cycle()
        ended = weakref.ref(cycle)
        del cycle
        collector.freeze_start()
        assert ended() is None
        held = _data(100_000)
        collector.freeze_start()
        assert gc.get_freeze_count() > spared + 50_000
        assert held
    assert gc.get_stats()[2]["collections"] == full + 1


def test_what_is_gone_through_at_a_time_is_bounded_while_more_and_more_stays() -> None:
    passed: list[int] = []

    def seen(phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            passed.append(len(gc.get_objects()))

    collector = Collector(clock=Clock())
    with collector.in_charge():
        collector.settle()
        gc.callbacks.append(seen)
        try:
            held = [_data(SPARED // 4) for _ in range(25) if collector.look() is None]
        finally:
            gc.callbacks.remove(seen)
    assert held
    assert len(passed) > 10
    assert max(passed) < 2 * SPARED  # of the 75,000 that are there at the end


def test_what_is_new_is_counted_while_as_much_that_is_old_ends(clock: Clock) -> None:
    passed: list[str] = []

    def seen(phase: str, _info: dict[str, int]) -> None:
        passed.append(phase)

    collector = Collector(clock=clock)
    with collector.in_charge():
        old = _data(2 * SPARED)
        collector.settle()
        gc.callbacks.append(seen)
        try:
            new = _data(2 * SPARED)
            del old[SPARED // 4 :]
            collector.look()
        finally:
            gc.callbacks.remove(seen)
    assert new
    assert not passed  # set aside unseen


def test_what_is_new_is_not_gone_through_between_two_looks(collector: Collector) -> None:
    passed: list[str] = []

    def seen(phase: str, _info: dict[str, int]) -> None:
        passed.append(phase)

    gc.callbacks.append(seen)
    try:
        held = _data(200_000)  # a list of as many takes long each time
        assert not passed
        collector.look()
    finally:
        gc.callbacks.remove(seen)
    assert held
    assert not passed  # set aside unseen


@pytest.mark.parametrize("busy", [0.0, 2 * QUIET])
def test_everything_is_gone_through_while_nobody_asks_anything(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, busy: float
) -> None:
    monkeypatch.setattr(collecting, "WHOLE", sys.maxsize)
    spent = count(step=busy * WHOLE_S)
    collector = Collector(spared=20_000, clock=clock, hidden=20_000, spent=lambda: next(spent))
    with collector.in_charge():
        collector.settle()
        held = _data(100_000)
        cycle = Cycle()
        ended = weakref.ref(cycle)
        collector.look()
        del cycle
        clock.now += WHOLE_S
        collector.look()
        assert held
        assert (ended() is None) == (not busy)
        clock.now += SELDOM_S
        collector.look()
        assert ended() is None


@pytest.mark.parametrize("took", [0.0, 2 * LONG_S])
def test_what_took_long_to_go_through_is_set_aside(clock: Clock, took: float) -> None:
    spent = count(step=took)
    collector = Collector(clock=clock, spent=lambda: next(spent))
    with collector.in_charge():
        collector.settle()
        before = gc.get_freeze_count()
        held = _data(GROWN // 4)  # too few objects to be set aside for their number
        for _ in range(NEW):
            Cycle()
        collector.look()
        assert held
        assert (gc.get_freeze_count() >= before + GROWN // 4) == (took > LONG_S)


def test_blocks_of_memory_are_not_counted_at_a_look(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def blocks() -> int:
        counted.append(1)
        return 10**9

    monkeypatch.setattr(collecting.sys, "getallocatedblocks", blocks)
    collector = Collector(clock=clock, spent=lambda: 0.0)
    with collector.in_charge():
        collector.settle()
        counted.clear()
        held = [
            _data(size) for size in (NEW, SPARED) for _ in range(10) if collector.look() is None
        ]
        assert held
        assert not counted  # which takes a millisecond with 300 MB
        for _ in range(10):  # nothing is due: that much is gone through seldom
            collector.look()
            clock.now += WHOLE_S / 4
        assert 1 < len(counted) < 10


def test_what_comes_and_goes_is_gone_through_again_and_again(clock: Clock) -> None:
    collector = Collector(clock=clock)
    with collector.in_charge():
        collector.settle()
        spared = gc.get_freeze_count()
        for _ in range(50):
            for _ in range(NEW):
                Cycle()
            collector.look()
            assert gc.get_count()[0] < NEW
        assert gc.get_freeze_count() <= spared + GROWN
