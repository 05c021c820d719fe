"""Thread pools for long computations: one for work on catalogs, one at a time, and one for work
that callers wait for.

Owns: these threads, and those for work that may hang. Never imports a room.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from armory.threads.pieces import FREEING
from armory.threads.priorities import lower_priority
from armory.threads.switching import SWITCH_INTERVAL

_T = TypeVar("_T")

CATALOG_NICE = 14
"""The nice value of work on a catalog, as of embedding it. Where the event loop needs a whole core,
giving a third of it to a catalog of 100,000 tools would make every call half as long again."""
_UNPAUSED, _REST_S = 8, 0.03
"""Steps for a caller that are taken without a pause; seconds between two later ones."""


async def in_turn(work: Callable[..., _T], *arguments: Any) -> _T:
    """Like `asyncio.to_thread`, for long work on a catalog: one at a time in the whole process.

    Every further computing thread may take the interpreter before the event loop gets it back.
    """
    FREEING.start()
    return await _run(_IN_TURN, work, *arguments)


async def for_callers(work: Callable[..., _T], *arguments: Any) -> _T:
    """Like `in_turn`, for work that a caller waits for: it never queues behind work on catalogs."""
    with SWITCH_INTERVAL.short():
        return await _run(_FOR_CALLERS, work, *arguments)


async def for_callers_if(large: bool, work: Callable[..., _T], *arguments: Any) -> _T:
    """Like `for_callers` if the work is `large`; otherwise run it at once."""
    return await for_callers(work, *arguments) if large else work(*arguments)


async def steps_for_callers(steps: Generator[None, None, _T]) -> _T:
    """Run a generator in the thread of `for_callers`, with other work between its steps; returns
    its result. After some steps it pauses for ten times as long as one of 64 KiB takes: each time
    the event loop goes idle, it has to wait for a computing thread to get the interpreter back.
    """
    taken = 0
    while True:
        with SWITCH_INTERVAL.short():
            done = await _run(_FOR_CALLERS, partial(_step, steps))
        if done:
            return done[0]
        taken += 1
        if taken >= _UNPAUSED:
            await asyncio.sleep(_REST_S)


def _step(steps: Generator[None, None, _T]) -> list[_T]:
    """Run one more step; returns the generator's result after the last."""
    try:
        next(steps)
    except StopIteration as done:
        return [done.value]
    return []


async def _run(pool: ThreadPoolExecutor, work: Callable[..., _T], *arguments: Any) -> _T:
    run = partial(copy_context().run, work, *arguments)
    return await asyncio.get_running_loop().run_in_executor(pool, run)


async def in_turn_if(large: bool, work: Callable[..., _T], *arguments: Any) -> _T:
    """Like `in_turn` if the work is `large`; otherwise run it at once."""
    if not large:
        return work(*arguments)
    with SWITCH_INTERVAL.short():
        return await in_turn(work, *arguments)


def _start_over() -> None:
    """Create new thread pools: after a fork, those of the parent have no threads, and work given to
    them would wait for ever.
    """
    global _IN_TURN, _FOR_CALLERS
    _IN_TURN = ThreadPoolExecutor(1, "armory-catalog", lower_priority, (CATALOG_NICE,))
    _FOR_CALLERS = ThreadPoolExecutor(1, "armory-callers", lower_priority)
    FREEING.start_over()


_start_over()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)


def unattended(work: Callable[[], _T], name: str) -> Future[_T]:
    """Run `work` in its own daemon thread, for which the end of the process does not wait.

    Args:
        work: what may hang, on another machine for example.
        name: the thread's, for debuggers.
    """
    found: Future[_T] = Future()
    found.set_running_or_notify_cancel()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # noqa: BLE001 told to whoever waits
            found.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return found
