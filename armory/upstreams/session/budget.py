"""The budget of what an upstream may send unasked, before it is throttled and then cut off.

Owns: `Budget`, one an upstream, pure over a clock. Answers to calls cost nothing. Never imports a
transport.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from armory.logger import Logger

log = Logger(__name__)

RATE = 1_000.0
"""Units a second. A notification costs one, and one more for each KiB."""
BURST = 5_000.0
TOLD_TO_ALL = 20.0
"""Units that a changed list costs: every open session is looked at, and the lists are fetched."""
TOLD_EACH_S = 0.05
"""Announcements that follow sooner are passed on as one and cost what other notifications do."""
NUISANCE = 10.0
"""Units that garbage costs, an answer to nothing, or a request of the upstream's own."""
_LONGEST_PAUSE_S = 1.0
_PATIENCE_S = 10.0
_LINES = 20
_LOGGED_CHARS = 300
_WINDOW_S = 60.0


class Budget:
    """The budget of one upstream, in units.

    Args:
        server: its key, for the log.
        clock: seconds, monotonic.

    Attributes:
        charged: the units that were ever spent.
    """

    def __init__(self, server: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._clock = clock
        self.charged = 0.0
        self._units = BURST
        self._filled_at = clock()
        self._over_since: float | None = None
        self._spent = 0.0
        self._nuisance = 0.0
        self._lines: dict[str, tuple[float, int]] = {}

    def notification(self, size: int, cost: float = 1.0) -> None:
        """A notification of `size` bytes came."""
        self._spend(cost + size / 1024)

    def nuisance(self, size: int = 0) -> None:
        """A message came that costs far more than it can be worth."""
        cost = NUISANCE + size / 1024
        self._nuisance += cost
        self._spend(cost)

    def garbage(self, error: object, size: int) -> None:
        """A message of `size` bytes came that cannot be parsed."""
        self.nuisance(size)
        self.say(log.warning, "upstream_garbage", error=str(error))

    def pause_s(self) -> float:
        """Seconds for which nothing should be read from it; 0.0 while it is within its budget. Ask
        again afterwards.
        """
        if self._over_since is None:
            return 0.0
        self._fill()
        return min(_LONGEST_PAUSE_S, -self._units / RATE) if self._units < 0 else 0.0

    @property
    def worn_out(self) -> bool:
        """Whether throttling does not help: for ten seconds it has sent mostly useless messages."""
        since = self._over_since
        if since is None or self._clock() - since < _PATIENCE_S:
            return False
        return self._nuisance > self._spent / 2

    def say(self, write: Callable[..., Any], event: str, **what: str) -> None:
        """Write a log line about it, at most 20 a minute of each event."""
        now = self._clock()
        since, lines = self._lines.get(event, (now, 0))
        if now - since > _WINDOW_S:
            since, lines = now, 0
        self._lines[event] = since, lines + 1
        if lines < _LINES:
            short = {
                name: f"{said[:_LOGGED_CHARS]}..." if len(said) > _LOGGED_CHARS else said
                for name, said in what.items()
            }
            write(event, upstream=self._server, **short)
        elif lines == _LINES:
            log.warning("upstream_muted", upstream=self._server, about=event, after=_LINES)

    def _spend(self, cost: float) -> None:
        self.charged += cost
        self._units -= cost
        if self._over_since is not None:
            self._spent += cost
        elif self._units < 0:
            self._fill()
            if self._units < 0:
                self._over_since, self._spent, self._nuisance = self._clock(), 0.0, 0.0
                log.warning("upstream_slowed", upstream=self._server)

    def _fill(self) -> None:
        now = self._clock()
        self._units = min(BURST, self._units + (now - self._filled_at) * RATE)
        self._filled_at = now
        if self._units > BURST / 2:
            self._over_since = None
