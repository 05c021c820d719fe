"""How long a call may take, without a timer of its own.

Owns: `CallDeadline`. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from armory.http1.deadlines import Deadlines


class CallDeadline:
    """Like `asyncio.timeout`, over the one timer that calls with the same time-out share; and it
    can be stopped for a while.

    Args:
        deadlines: those of the session.
        timeout_s: from when it is entered, in seconds.

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
        """Stop the time; nothing happens when it stands already."""
        if self._running_s is not None:
            self._left_s = max(0.0, self._due - asyncio.get_running_loop().time())
            self._stop()

    def resume(self) -> None:
        """Let the time that is left pass."""
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
