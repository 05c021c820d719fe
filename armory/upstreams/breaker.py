"""A circuit breaker: after several failures in a row, stop asking for a while.

Owns: the state machine, pure; every method takes the time. Never imports anything of Armory.
"""

from __future__ import annotations

from typing import Literal

State = Literal["closed", "open", "half_open"]


class Breaker:
    """Closed lets everything through; open nothing; half-open one trial call.

    Args:
        failures: so many failures in a row open it, at least 1.
        open_s: seconds from opening until a trial call is let through.
    """

    def __init__(self, failures: int = 5, open_s: float = 30.0) -> None:
        self._limit = max(1, failures)
        self._open_s = open_s
        self._failed = 0
        self._opened_at: float | None = None
        self._trial = False
        self._cause: object = None

    def state(self, now: float) -> State:
        """The state at `now` (seconds)."""
        if self._opened_at is None:
            return "closed"
        return "half_open" if self._trial or now - self._opened_at >= self._open_s else "open"

    def admits(self, now: float) -> bool:
        """Whether a call may go out now; half-open, the first one asked becomes the trial.

        Whoever was admitted must report `succeeded`, `failed` or `abandoned`.
        """
        if self._opened_at is None:
            return True
        if self._trial or now - self._opened_at < self._open_s:
            return False
        self._trial = True
        return True

    def retry_after_s(self, now: float) -> float:
        """Seconds until it makes sense to ask again."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._open_s - now)

    def succeeded(self) -> None:
        """A call was answered: close, and forget the failures."""
        self._cause = None
        self._failed = 0
        self._opened_at = None
        self._trial = False

    def failed(self, now: float, cause: object = None) -> None:
        """A call failed: count it, open at the limit, open anew after a failed trial.

        Args:
            now: seconds.
            cause: what several calls fail with at once, such as a session that died: it counts
                once. None: nothing but this call.
        """
        if cause is not None and cause is self._cause and not self._trial:
            return
        self._cause = cause
        self._failed += 1
        if self._trial or self._failed >= self._limit:
            self._opened_at = now
        self._trial = False

    def abandoned(self) -> None:
        """A call ended without a verdict (its caller went away): the trial is free again."""
        self._trial = False
