"""How long a call may take: as `asyncio.timeout`, paused and resumed."""

from __future__ import annotations

import asyncio
import weakref
from contextvars import ContextVar

import pytest

from armory.http1.deadlines import CallDeadline, Deadlines

pytestmark = pytest.mark.anyio
SOON_S, LONG_S = 0.02, 3_600.0


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_the_time_is_up() -> None:
    deadlines = Deadlines()
    with pytest.raises(TimeoutError), CallDeadline(deadlines, SOON_S):
        await forever()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    await asyncio.sleep(0)  # nothing is left that would cancel what comes now


class Known:
    """What a call knows."""


async def test_one_that_was_paused_leaves_no_timer() -> None:
    deadlines, knows = Deadlines(), ContextVar[Known]("knows")
    with CallDeadline(deadlines, LONG_S):
        pass  # the timer that is shared is of this context

    async def call() -> weakref.ref[Known]:
        knows.set(Known())
        with CallDeadline(deadlines, LONG_S) as scope:
            scope.pause()
            await asyncio.sleep(0.001)
            scope.resume()
        return weakref.ref(knows.get())

    gone = await asyncio.create_task(call())
    await asyncio.sleep(0)
    assert gone() is None


async def test_in_time_and_errors_pass() -> None:
    deadlines = Deadlines()
    with CallDeadline(deadlines, SOON_S):
        pass  # the loop has no turn, so that it is in time on any machine
    with pytest.raises(KeyError), CallDeadline(deadlines, SOON_S):
        raise KeyError
    await asyncio.sleep(2 * SOON_S)  # neither cancels us any more


async def test_who_is_cancelled_meanwhile_is_cancelled() -> None:
    begun = asyncio.Event()

    async def call() -> None:
        with CallDeadline(Deadlines(), LONG_S):
            begun.set()
            await forever()

    task = asyncio.ensure_future(call())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_inner_one_is_not_the_outer_ones() -> None:
    deadlines = Deadlines()
    with CallDeadline(deadlines, LONG_S):
        with pytest.raises(TimeoutError), CallDeadline(deadlines, SOON_S):
            await forever()
        await asyncio.sleep(0)


async def test_no_time_passes_while_it_is_paused() -> None:
    passed = False

    async def call() -> None:
        nonlocal passed
        with CallDeadline(Deadlines(), SOON_S) as scope:
            scope.pause()
            scope.pause()
            await asyncio.sleep(3 * SOON_S)
            passed = True
            scope.resume()
            await forever()

    with pytest.raises(TimeoutError):
        await call()
    assert passed


class Later:
    """Expires after whatever began before it with the same time-out, or a shorter one."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def expire(self) -> None:
        self.over.set()


async def test_after_its_end_it_cannot_be_resumed() -> None:
    deadlines, later = Deadlines(), Later()
    with CallDeadline(deadlines, SOON_S) as scope:
        scope.pause()
    scope.resume()
    deadlines.start(later, SOON_S)
    await asyncio.wait_for(later.over.wait(), 10)  # this would be cancelled before


async def test_all_share_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, made = asyncio.get_running_loop(), 0
    call_at = loop.call_at

    def counted(*args: object, **kw: object) -> asyncio.TimerHandle:
        nonlocal made
        made += 1
        return call_at(*args, **kw)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_at", counted)
    deadlines = Deadlines()
    for _ in range(100):
        with CallDeadline(deadlines, LONG_S):
            pass
    assert made == 1
    deadlines.close()
