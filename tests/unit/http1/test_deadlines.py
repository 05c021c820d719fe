"""One timer for many deadlines: each on time, none after it was stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from armory.http1.deadlines import Deadlines


class Timer:
    """As `asyncio.TimerHandle`."""

    def __init__(self, due: float, do: Callable[[], object]) -> None:
        self.due = due
        self.do = do
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """The timers of an event loop, and a time that the test moves: no machine is slow here."""

    def __init__(self) -> None:
        self._now = 100.0
        self._timers: list[Timer] = []

    @property
    def waiting(self) -> int:
        return sum(not one.cancelled for one in self._timers)

    def time(self) -> float:
        return self._now

    def call_at(self, due: float, do: Callable[..., object], *args: Any) -> Timer:
        self._timers.append(Timer(due, lambda: do(*args)))
        return self._timers[-1]

    def pass_by(self, seconds: float) -> None:
        end = self._now + seconds
        while timers := [one for one in self._timers if one.due <= end and not one.cancelled]:
            first = min(timers, key=lambda one: one.due)
            self._timers.remove(first)
            self._now = max(self._now, first.due)
            first.do()
        self._now = end


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    found = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: found)
    return found


class Call:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def expire(self) -> None:
        self.log.append(self.name)


def test_deadlines_expire_in_order_and_stopped_ones_never(loop: Loop) -> None:
    log: list[str] = []
    deadlines = Deadlines()
    first, stopped, late, short = (Call(name, log) for name in ("first", "no", "late", "short"))
    deadlines.start(first, 5.0)
    deadlines.start(stopped, 5.0)
    deadlines.start(short, 1.0)
    deadlines.stop(stopped, 5.0)
    loop.pass_by(4.9)
    assert log == ["short"]
    loop.pass_by(0.2)
    assert log == ["short", "first"]
    deadlines.start(late, 5.0)
    loop.pass_by(4.9)
    assert log == ["short", "first"]
    loop.pass_by(0.2)
    assert log == ["short", "first", "late"]


def test_the_timer_goes_on_to_the_next_one_when_the_first_was_in_time(loop: Loop) -> None:
    log: list[str] = []
    deadlines = Deadlines()
    first, second = Call("first", log), Call("second", log)
    deadlines.start(first, 3.0)
    loop.pass_by(1.0)
    deadlines.start(second, 3.0)
    deadlines.stop(first, 3.0)
    loop.pass_by(2.9)
    assert log == []
    loop.pass_by(0.2)
    assert log == ["second"]


def test_after_closing_nothing_expires(loop: Loop) -> None:
    log: list[str] = []
    deadlines = Deadlines()
    deadlines.start(Call("a", log), 0.0)
    deadlines.close()
    loop.pass_by(10.0)
    assert log == []


def test_after_finishing_no_timer_stays_that_nothing_waits_for(loop: Loop) -> None:
    log: list[str] = []
    deadlines = Deadlines()
    answered, running, slow = (Call(name, log) for name in ("answered", "running", "slow"))
    deadlines.start(answered, 9.0)
    deadlines.stop(answered, 9.0)
    deadlines.start(running, 5.0)
    deadlines.start(slow, 2.0)
    assert loop.waiting == 3
    deadlines.finish()
    assert loop.waiting == 2
    deadlines.stop(running, 5.0)
    assert loop.waiting == 1
    loop.pass_by(10.0)
    assert log == ["slow"]
    deadlines.start(running, 5.0)  # late all the same
    deadlines.stop(running, 5.0)
    assert loop.waiting == 0
