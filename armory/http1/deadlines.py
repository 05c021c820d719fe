"""Deadlines for many exchanges with one timer: they share a time-out, so they expire in order.

Owns: `Deadlines`, and `CallDeadline`, which limits a block of code. A timer of the event loop for
each call would cost more than most steps of the call. Never imports anything of Armory.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol


class Expiring(Protocol):
    """Something with a deadline."""

    def expire(self) -> None:
        """The deadline has passed."""
        ...


class Deadlines:
    """Deadlines grouped by time-out, in the order in which they began; each group has one timer."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[float, dict[Expiring, float]] = {}
        self._timers: dict[float, asyncio.TimerHandle] = {}
        self._last = False

    def start(self, waiting: Expiring, timeout_s: float) -> float:
        """Make `waiting` expire in `timeout_s` seconds; returns when, in the loop's time."""
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
        """Remove the deadline of `waiting`."""
        queue = self._waiting.get(timeout_s)
        if queue is not None:
            queue.pop(waiting, None)
            if self._last and not queue:
                self._forget(timeout_s)

    def finish(self) -> None:
        """No further ones are expected: a timer goes with its last deadline. It would stay for as
        long as that could have taken, and hold what the call knew that began it.
        """
        self._last = True
        for timeout_s in [timeout_s for timeout_s, queue in self._waiting.items() if not queue]:
            self._forget(timeout_s)

    def _forget(self, timeout_s: float) -> None:
        del self._waiting[timeout_s]
        self._timers.pop(timeout_s).cancel()

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
        """Remove all deadlines; nothing expires any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting.clear()


class CallDeadline:
    """Like `asyncio.timeout`, but calls with the same time-out share a timer, and it can be paused.

    Args:
        deadlines: those of the session.
        timeout_s: seconds from when it is entered.

    Raises:
        TimeoutError: at its end, where the time was up.
    """

    __slots__ = ("_cancelling", "_deadlines", "_due", "_expired", "_left_s", "_running_s", "_task")

    def __init__(self, deadlines: Deadlines, timeout_s: float) -> None:
        self._deadlines = deadlines
        self._left_s = timeout_s
        self._running_s: float | None = None
        self._due = 0.0
        self._expired = False
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    def __enter__(self) -> CallDeadline:
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self.resume()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        task, self._task = self._task, None
        if self._expired and task is not None:
            ours = task.uncancel() <= self._cancelling
            if ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def pause(self) -> None:
        """Stop the clock; does nothing if it is stopped already."""
        if self._running_s is not None:
            self._left_s = max(0.0, self._due - asyncio.get_running_loop().time())
            self._stop()
            self._deadlines = Deadlines()  # no other has as long as this one is left
            self._deadlines.finish()

    def resume(self) -> None:
        """Continue with the time that is left."""
        if self._running_s is None and not self._expired and self._task is not None:
            self._running_s = self._left_s
            self._due = self._deadlines.start(self, self._left_s)

    def _stop(self) -> None:
        if self._running_s is not None:
            self._deadlines.stop(self, self._running_s)
            self._running_s = None

    def expire(self) -> None:
        """As `Expiring.expire`: the time is up."""
        self._running_s, self._expired = None, True
        if self._task is not None:
            self._task.cancel()
