from __future__ import annotations

import asyncio

import pytest

from armory.testing.waiting import until
from armory.upstreams.queue import CallQueue, QueueFull

pytestmark = pytest.mark.anyio


async def test_first_come_first_served() -> None:
    gate = CallQueue(1, 5)
    order: list[int] = []

    async def caller(number: int) -> None:
        await gate.enter(5)
        order.append(number)
        gate.leave()

    assert gate.try_enter()
    tasks = [asyncio.create_task(caller(n)) for n in range(3)]
    await until(lambda: gate.waiting == 3)
    assert not gate.try_enter()
    gate.leave()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]
    assert gate.inside == 0


async def test_a_full_queue_sheds_at_once() -> None:
    gate = CallQueue(1, 0)
    await gate.enter(1)
    with pytest.raises(QueueFull):
        await gate.enter(1)


async def test_waiting_is_bounded_and_leaves_no_trace() -> None:
    gate = CallQueue(1, 1)
    await gate.enter(1)
    with pytest.raises(TimeoutError):
        await gate.enter(0.01)
    assert gate.waiting == 0
    gate.leave()
    assert gate.try_enter()


async def test_a_place_given_to_a_cancelled_caller_is_passed_on() -> None:
    gate = CallQueue(1, 2)
    await gate.enter(1)
    first = asyncio.create_task(gate.enter(5))
    second = asyncio.create_task(gate.enter(5))
    await until(lambda: gate.waiting == 2)
    gate.leave()  # the place is the first one's now, who has not run yet
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.wait_for(second, 30)
    assert gate.inside == 1


async def test_a_queue_is_drained_when_the_last_call_has_left() -> None:
    gate = CallQueue(2, 0)
    assert await gate.drained(0.01)
    await gate.enter(1)
    assert not await gate.drained(0.01)
    waiting = asyncio.create_task(gate.drained(5))
    await asyncio.sleep(0)
    gate.leave()
    assert await waiting
