from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from armory.tasks import (
    Flight,
    Flights,
    InTurn,
    Pauses,
    Tasks,
    cancellable,
    give_way,
    shielded,
    spawn,
    start,
    stop,
)
from tests.garbage import none_collected

pytestmark = pytest.mark.anyio


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("broken")


async def test_a_failure_that_nobody_waits_for_is_logged_once() -> None:
    with capture_logs() as logs:
        task = spawn(fail(), "doomed")
        await asyncio.wait([task])
        await asyncio.sleep(0)
        await stop(task)
    assert [(entry["event"], entry["task"]) for entry in logs] == [("task_failed", "doomed")]
    assert str(logs[0]["exc_info"]) == "broken"


async def test_an_awaited_failure_is_the_waiters() -> None:
    with capture_logs() as logs, pytest.raises(ValueError, match="broken"):
        await start(fail(), "awaited")
    assert logs == []


async def test_stop_waits_until_they_have_ended_and_raises_nothing() -> None:
    steps: list[str] = []

    async def tidy() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            steps.append("tidied")

    tidying, failed = start(tidy(), "tidy"), start(fail(), "failed")
    await asyncio.sleep(0)
    await stop(tidying, None, failed)
    assert (steps, tidying.cancelled(), failed.done()) == (["tidied"], True, True)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancellation_that_a_library_swallows_is_raised(fails: bool) -> None:
    async def swallow() -> None:  # as asyncio.wait_for of Python 3.11 does, now and then
        try:
            await forever()
        except asyncio.CancelledError:
            if fails:
                raise OSError("lost") from None

    async def loop() -> None:
        while True:
            with suppress(OSError):
                await cancellable(swallow())

    task = start(loop(), "loop")
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await stop(task)
    assert task.cancelled()


async def test_what_a_library_times_out_itself_is_no_cancellation() -> None:
    async def late() -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await forever()
        return "went on"

    assert await cancellable(late()) == "went on"
    with pytest.raises(ValueError, match="broken"):
        await cancellable(fail())


async def test_stop_does_not_wait_for_the_task_that_calls_it() -> None:
    tasks = Tasks()

    async def end_all() -> str:
        await tasks.stop()
        return "went on"

    other = tasks.spawn(forever(), "other")
    assert await tasks.start(end_all(), "own") == "went on"
    assert other.cancelled()
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_one_that_does_not_end_in_time_is_named() -> None:
    async def stubborn() -> None:
        for _ in range(2):
            try:
                await forever()
            except asyncio.CancelledError:
                continue

    task = start(stubborn(), "stubborn")
    await asyncio.sleep(0)
    with capture_logs() as logs:
        await stop(task, timeout_s=0.01)
    assert [entry["tasks"] for entry in logs] == [["stubborn"]]
    await stop(task)


async def test_ended_waits_for_those_that_are_started_meanwhile() -> None:
    tasks = Tasks()
    steps: list[str] = []

    async def second() -> None:
        steps.append("second")

    async def first() -> None:
        await asyncio.sleep(0)
        tasks.spawn(second(), "second")
        steps.append("first")

    tasks.spawn(first(), "first")
    await tasks.ended()
    assert steps == ["first", "second"]


async def test_beside_others_work_in_pieces_takes_a_share_of_the_loop() -> None:
    pieces, turns = 0, 0

    async def work() -> None:
        nonlocal pieces
        while True:
            pieces += 1
            await give_way(0.001)

    def other() -> None:
        nonlocal turns
        turns += 1
        ends = time.perf_counter() + 0.001
        while time.perf_counter() < ends:
            pass

    working = asyncio.ensure_future(work())
    for _ in range(20):
        other()
        await asyncio.sleep(0)
    assert pieces < 20, "it does not take a turn of each round"
    alone = pieces
    for _ in range(200_000):
        await asyncio.sleep(0)
        if pieces >= alone + 20:
            break
    assert pieces >= alone + 20, "where nobody does anything it goes on"
    await stop(working)


async def test_work_in_turn_goes_on_to_its_end_without_who_waits_for_it() -> None:
    turns, steps = InTurn("pieces"), list[str]()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        begun.set()
        await go_on.wait()
        steps.append("first")

    async def second() -> None:
        steps.append("second")

    waiting = asyncio.create_task(turns.do(first))
    await begun.wait()
    after = asyncio.create_task(turns.do(second))
    for _ in range(5):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    go_on.set()
    await asyncio.wait_for(after, 30)
    assert (waiting.cancelled(), steps) == (True, ["first", "second"])
    with pytest.raises(ValueError, match="broken"):
        await turns.do(fail)
    stopped = asyncio.create_task(turns.do(forever))
    await asyncio.sleep(0)
    await turns.stop()
    await asyncio.wait((stopped,))
    assert stopped.cancelled()


def test_pauses_grow_until_a_lull_and_less_with_news() -> None:
    now = [0.0]
    pauses = Pauses(1.0, 8.0, 2.0, clock=lambda: now[0])

    def next_s(*, news: bool, after_s: float = 1.0) -> float:
        now[0] += after_s
        found = pauses.next_s()
        pauses.done(news=news)
        return found

    assert [next_s(news=False) for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert [next_s(news=True) for _ in range(3)] == [8.0, 2.0, 2.0]
    assert next_s(news=False, after_s=8.0) == 2.0
    assert next_s(news=False, after_s=8.5) == 1.0


Work = Callable[[], Coroutine[Any, Any, None]]


async def alone(work: Work) -> None:
    await shielded(start(work(), "work"))


async def in_flight(work: Work) -> None:
    await Flight[None]("work").join(work)


async def in_flights(work: Work) -> None:
    await Flights[None]().join("key", work)


async def in_turn(work: Work) -> None:
    await InTurn("work").do(work)


@pytest.mark.parametrize("waits", [alone, in_flight, in_flights, in_turn])
async def test_work_that_fails_when_nobody_waits_any_more_is_no_matter_of_the_event_loop(
    waits: Callable[[Work], Coroutine[Any, Any, None]],
) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    go_on = asyncio.Event()

    async def fails() -> None:
        await go_on.wait()
        raise ValueError("late")

    waiting = start(waits(fails), "waiting")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await stop(waiting)
    go_on.set()
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()
    assert told == []


async def test_who_is_shielded_gets_the_result_the_failure_or_the_cancellation() -> None:
    async def said() -> str:
        return "said"

    async def fails() -> None:
        raise ValueError("why")

    done = start(said(), "done")
    assert [await shielded(done), await shielded(done)] == ["said", "said"]
    with pytest.raises(ValueError, match="why"):
        await shielded(start(fails(), "fails"))
    gone = start(asyncio.sleep(60), "gone")
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await shielded(gone)


class Broken(Exception):
    """Made by `broken` alone."""


async def broken() -> None:
    await asyncio.sleep(0)
    raise Broken


AWAITED: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
    "shielded": lambda: shielded(start(broken(), "work")),
    "in turn": lambda: InTurn("work").do(broken),
    "a flight": lambda: Flight[None]("work").join(broken),
    "flights": lambda: Flights[None]().join("key", broken),
}


@pytest.mark.parametrize("awaited", AWAITED.values(), ids=AWAITED)
async def test_an_error_of_work_that_others_wait_for_leaves_nothing(
    awaited: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    with none_collected() as gone:
        with suppress(Broken):
            await awaited()
        await gone(Broken)


class Held:
    """What a frame holds."""


async def hold(held: Held) -> None:
    holding = held, asyncio.current_task()
    await asyncio.Event().wait()
    raise AssertionError(holding)


async def test_a_cancelled_task_is_gone_though_its_frame_held_it() -> None:
    with none_collected() as gone:
        stopped, cancelled = start(hold(Held()), "stopped"), spawn(hold(Held()), "cancelled")
        await asyncio.sleep(0)
        await stop(stopped)
        cancelled.cancel()
        del stopped, cancelled
        await gone(Held)
