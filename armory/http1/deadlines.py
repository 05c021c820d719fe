"""Many deadlines, one timer: calls to one upstream share a time-out, so they end in order.

Owns: `Deadlines`. A timer of the event loop for each call costs more than most of what the call
does on its way. Never imports anything of Armory.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Expiring(Protocol):
    """Something with a deadline."""

    def expire(self) -> None:
        """The deadline has passed."""
        ...


class Deadlines:
    """Deadlines by their length, each in the order in which they began: one timer for all of a
    length.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[float, dict[Expiring, float]] = {}
        self._timers: dict[float, asyncio.TimerHandle] = {}

    def start(self, waiting: Expiring, timeout_s: float) -> float:
        """Have `waiting` expire `timeout_s` seconds from now: when that is, as the loop's time."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        due = loop.time() + timeout_s
        queue = self._waiting.get(timeout_s)
        if queue is None:
            queue = self._waiting[timeout_s] = {}
        queue[waiting] = due
        if timeout_s not in self._timers:
            self._timers[timeout_s] = loop.call_at(due, self._expire_due, timeout_s)
        return due

    def stop(self, waiting: Expiring, timeout_s: float) -> None:
        """Forget the deadline of `waiting`, which was in time."""
        queue = self._waiting.get(timeout_s)
        if queue is not None:
            queue.pop(waiting, None)

    def _expire_due(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        del self._timers[timeout_s]
        queue = self._waiting[timeout_s]
        now = loop.time()
        over = [waiting for waiting, due in queue.items() if due <= now]
        for waiting in over:
            del queue[waiting]
        if queue:
            first = next(iter(queue.values()))
            self._timers[timeout_s] = loop.call_at(first, self._expire_due, timeout_s)
        else:
            del self._waiting[timeout_s]
        for waiting in over:
            waiting.expire()

    def close(self) -> None:
        """Forget everything; nothing expires any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting.clear()
