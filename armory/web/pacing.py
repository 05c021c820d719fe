"""Large request bodies, read piece by piece round their callers.

Owns: `Pace`, which says when a connection may read its next piece. A piece costs the event loop
what a small request does, and senders without pause would leave no time for those. Never looks at
what is said.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

EVERY_S = 0.004
"""Between two pieces, of 256 KiB at most: 64 MB a second in all."""
BESIDE_S = 0.010
"""The same beside somebody who asks something: to take a piece in, understand it and let go of it
takes most of a millisecond, in the way of each step of others' calls."""
AT_ONCE = 16
"""So many pieces are read without a pause after a while without any: a large body by itself."""
LARGE_PIECE = 128 * 1024
"""From so many bytes of a body on it takes part; smaller ones come at once."""


class Reading(Protocol):
    """A connection whose body is read.

    Attributes:
        caller: who asks on it.
    """

    caller: str

    @property
    def beside_others(self) -> bool:
        """Whether anybody else asked something lately."""
        ...

    def hold(self) -> None:
        """Read nothing more for now."""
        ...

    def go_on(self) -> None:
        """Read again."""
        ...


class Pace:
    """Lets connections read large bodies one after another, one piece of each caller and round.

    Of a caller's bodies the one that was read last goes on: many that have begun hold more memory
    than few that end.

    Args:
        every_s: seconds between two pieces.
        at_once: pieces that need not wait after a while without any.
        beside_s: seconds between two pieces beside others.
    """

    def __init__(
        self, every_s: float = EVERY_S, at_once: int = AT_ONCE, beside_s: float = BESIDE_S
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._every_s, self._beside_s = every_s, beside_s
        self._ahead_s = every_s * at_once
        self._due = 0.0
        self._held: dict[str, deque[Reading]] = {}
        self._waiting: dict[Reading, str] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def took(self, reading: Reading) -> None:
        """It read a piece, and reads the next one in its turn."""
        if reading in self._waiting:
            return
        if self._timer is None and self._counted(self._every_s) <= self._ahead_s:
            return
        reading.hold()
        self._waiting[reading] = reading.caller
        self._held.setdefault(reading.caller, deque()).appendleft(reading)
        if self._timer is None:
            self._timer = self._loop.call_later(self._pause(reading), self._next)

    def forget(self, reading: Reading) -> None:
        """It is gone."""
        caller = self._waiting.pop(reading, None)
        if caller is not None:
            self._held[caller].remove(reading)
            if not self._held[caller]:
                del self._held[caller]

    def _pause(self, reading: Reading) -> float:
        return self._beside_s if reading.beside_others else self._every_s

    def _counted(self, pause: float) -> float:
        """Count a piece; how many seconds, at one piece a pause, all were read ahead of."""
        now = self._loop.time()
        self._due = max(self._due, now) + pause
        return self._due - now

    def _next(self) -> None:
        """The turn of the caller that has waited longest, which is last in the next round."""
        self._timer = None
        if not self._held:
            return
        caller = next(iter(self._held))
        mine = self._held.pop(caller)
        reading = mine.popleft()
        if mine:
            self._held[caller] = mine
        del self._waiting[reading]
        pause = self._pause(reading)
        self._timer = self._loop.call_later(pause, self._next)
        self._counted(pause)
        reading.go_on()
