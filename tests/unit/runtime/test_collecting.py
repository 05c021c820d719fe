"""What the garbage collector is spared, and what it finds all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from armory.runtime.blocks.collecting import YOUNG, Collector


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
    made = Collector(spared=20_000, clock=clock)
    with made.in_charge():
        made.settle()
        yield made


def _data(count: int) -> list[list[object]]:
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


def test_much_that_is_new_is_set_aside_and_found_again_when_it_has_ended(
    collector: Collector, clock: Clock
) -> None:
    held = _data(200_000)
    cycle = Cycle()
    ended = weakref.ref(cycle)
    spared = gc.get_freeze_count()
    collector.look()
    assert gc.get_freeze_count() > spared + 200_000
    del cycle
    collector.look()
    assert ended() is not None  # among what was set aside
    held.clear()
    collector.look()
    assert ended() is not None  # too soon: going through everything takes long
    clock.now += 61
    collector.look()
    assert ended() is None


def test_what_is_new_is_gone_through_where_it_is_not_much() -> None:
    collector = Collector(spared=10_000_000, clock=Clock())
    with collector.in_charge():
        collector.settle()
        cycle = Cycle()
        ended = weakref.ref(cycle)
        held = _data(100_000)  # enough for the younger ones to be looked at
        del cycle
        assert ended() is not None
        collector.look()
        assert held
        assert ended() is None


def test_what_was_before_is_there_afterwards() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    with Collector().in_charge():
        assert gc.get_threshold()[0] == YOUNG
        assert gc.get_threshold()[2] > 1_000_000
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
