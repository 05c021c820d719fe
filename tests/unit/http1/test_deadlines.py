"""One timer for many deadlines: each on time, none after it was stopped."""

from __future__ import annotations

import asyncio

import pytest

from armory.http1.deadlines import Deadlines

pytestmark = pytest.mark.anyio


class Call:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.over = asyncio.Event()

    def expire(self) -> None:
        self.log.append(self.name)
        self.over.set()


async def test_deadlines_expire_in_order_and_stopped_ones_never() -> None:
    log: list[str] = []
    deadlines = Deadlines()
    first, stopped, late, short = (Call(name, log) for name in ("first", "no", "late", "short"))
    deadlines.start(first, 0.05)
    deadlines.start(stopped, 0.05)
    deadlines.start(short, 0.01)
    deadlines.stop(stopped, 0.05)
    async with asyncio.timeout(5):
        await first.over.wait()
        deadlines.start(late, 0.05)
        await late.over.wait()
    assert log == ["short", "first", "late"]


async def test_the_timer_goes_on_to_the_next_one_when_the_first_was_in_time() -> None:
    log: list[str] = []
    deadlines = Deadlines()
    first, second = Call("first", log), Call("second", log)
    deadlines.start(first, 0.03)
    await asyncio.sleep(0.01)
    deadlines.start(second, 0.03)
    deadlines.stop(first, 0.03)
    async with asyncio.timeout(5):
        await second.over.wait()
    assert log == ["second"]


async def test_after_closing_nothing_expires() -> None:
    log: list[str] = []
    deadlines = Deadlines()
    deadlines.start(Call("a", log), 0.0)
    deadlines.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert log == []
