"""Who waits for long is kept alive."""

from __future__ import annotations

import asyncio

import pytest

from armory.wire.http.keepalive import KeepaliveTimer

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
    await asyncio.wait_for(waiting.twice.wait(), 5)
    timer.close()
    assert gone.count == 0
    timer.close()
