"""Work that is given up in the midst: whatever it waits for, it must leave nothing half done.

Owns: `given_up`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class _Counting:
    """Runs a coroutine, and cancels its task at one of its pauses."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int) -> None:
        self._work = work
        self._at = at
        self.came = False

    def __await__(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        step: Any = self._work.send
        value: Any = None
        paused = 0
        try:
            while True:
                awaited = step(value)
                paused += 1
                if paused == self._at:
                    self.came = True
                    asyncio.get_running_loop().call_soon(task.cancel)
                try:
                    value, step = (yield awaited), self._work.send
                except BaseException as thrown:  # noqa: BLE001 cancellation, above all
                    value, step = thrown, self._work.throw
        except StopIteration:
            return
        finally:
            value = step = None  # an error that passes holds this frame by its trace


async def given_up(work: Coroutine[Any, Any, Any], at: int) -> bool:
    """Whether `work` came to its so many-eth pause, where it was cancelled."""
    counting = _Counting(work, at)

    async def run() -> None:
        await counting

    await asyncio.wait({asyncio.create_task(run())})
    return counting.came
