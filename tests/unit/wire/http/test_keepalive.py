"""Who waits for long is kept alive."""

from __future__ import annotations

import asyncio

import pytest

from armory.wire.http.keepalive import AT_ONCE, KeepaliveTimer

pytestmark = pytest.mark.anyio


class Waiting:
    def __init__(self) -> None:
        self.count = 0
        self.twice = asyncio.Event()

    def keep_alive(self) -> None:
        self.count += 1
        if self.count == 2:
            self.twice.set()


async def test_the_timer_calls_those_who_still_wait() -> None:
    timer = KeepaliveTimer(0.03)
    waiting, gone = Waiting(), Waiting()
    timer.add(waiting)
    timer.add(gone)
    timer.drop(gone)
    await asyncio.wait_for(waiting.twice.wait(), 30)
    timer.close()
    assert gone.count == 0
    timer.close()


async def test_those_who_wait_together_are_called_some_in_a_turn() -> None:
    timer = KeepaliveTimer(0.03)
    many = [Waiting() for _ in range(10 * AT_ONCE)]
    for waiting in many:
        timer.add(waiting)
    most = before = 0
    async with asyncio.timeout(20):
        while not all(waiting.count for waiting in many):
            await asyncio.sleep(0)
            called = sum(waiting.count for waiting in many)
            most, before = max(most, called - before), called
    timer.close()
    assert most == AT_ONCE
