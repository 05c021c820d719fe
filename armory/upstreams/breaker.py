"""A circuit breaker: after several failures in a row, stop asking for a while.

Owns: the state machine, pure, and one for each session; every method takes the time. Never imports
anything of Armory.
"""

from __future__ import annotations

from typing import Literal

State = Literal["closed", "open", "half_open"]

SESSIONS = 10_000
"""Breakers of one upstream that are kept; the oldest goes first."""


class Breaker:
    """A circuit breaker: closed lets every call through, open none, half-open one trial call.

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
        """Whether a call may go out now. While half-open, the first call becomes the trial.

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
        """A call ended without a verdict (its caller went away): another call may be the trial."""
        self._trial = False


class Breakers:
    """The breakers of one upstream. Each session has its own, so its failures count for it alone.

    Args:
        failures: as of `Breaker`.
        open_s: as of `Breaker`.

    Attributes:
        own: that of the gateway's own session; while it is open, nothing goes to the upstream.
    """

    def __init__(self, failures: int, open_s: float) -> None:
        self._failures = failures
        self._open_s = open_s
        self.own = Breaker(failures, open_s)
        self._of_sessions: dict[str, Breaker] = {}

    def of(self, session: str) -> Breaker:
        """The breaker of the session or process with this key."""
        breaker = self._of_sessions.get(session)
        if breaker is None:
            if len(self._of_sessions) >= SESSIONS:
                del self._of_sessions[next(iter(self._of_sessions))]
            breaker = self._of_sessions[session] = Breaker(self._failures, self._open_s)
        return breaker

    def forget(self, session: str) -> None:
        """Drop the breaker of a session that has ended: no call would ever close it again."""
        self._of_sessions.pop(session, None)

    def state(self, now: float) -> State:
        """The worst state of all breakers at `now` (seconds)."""
        states = {self.own.state(now), *(each.state(now) for each in self._of_sessions.values())}
        return "open" if "open" in states else "half_open" if "half_open" in states else "closed"
