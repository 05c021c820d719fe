"""Reads large request bodies piece by piece, round robin over callers.

Owns: `Pace`, which decides when a connection may read its next piece. A piece costs the event loop
as much as a small request, so bodies that are read without pause would starve small requests. And
what has so many lines that it is parsed some at a time. Never reads the content otherwise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

EVERY_S = 0.004
"""Seconds between two pieces of at most 256 KiB: 64 MB a second in all."""
BESIDE_S = 0.010
"""The same while other callers are active: receiving, checking and freeing a piece takes most of a
millisecond, which delays every step of their calls."""
AT_ONCE = 16
"""Pieces that are read without a pause after a quiet while, as for a single large body."""
LARGE_PIECE = 128 * 1024
"""Bodies are paced from this size on; smaller ones are read at once."""
_MANY_LINES, LINES_BYTES = 500, 8 * 1024
"""A piece with more line ends, such as a body in chunks of one byte, is parsed in parts of so many
bytes a turn: at most 1,400 chunks."""


class Reading(Protocol):
    """A connection whose body is being read.

    Attributes:
        caller: whose requests the connection carries.
    """

    caller: str

    @property
    def beside_others(self) -> bool:
        """Whether other callers were active lately."""
        ...

    def hold(self) -> None:
        """Pause reading."""
        ...

    def go_on(self) -> None:
        """Resume reading."""
        ...


class Pace:
    """Schedules the reading of large bodies: one piece for each caller in each round.

    Of one caller's bodies the one that was read last continues: finishing a few takes less memory
    than having begun many.

    Args:
        every_s: seconds between two pieces.
        at_once: pieces that need not wait after a quiet while.
        beside_s: seconds between two pieces while other callers are active.
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
        """A piece was read; the next one waits for its turn."""
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
        """The connection is gone."""
        caller = self._waiting.pop(reading, None)
        if caller is not None:
            self._held[caller].remove(reading)
            if not self._held[caller]:
                del self._held[caller]

    def _pause(self, reading: Reading) -> float:
        return self._beside_s if reading.beside_others else self._every_s

    def _counted(self, pause: float) -> float:
        """Count a piece; returns the seconds by which reading is ahead of its rate."""
        now = self._loop.time()
        self._due = max(self._due, now) + pause
        return self._due - now

    def _next(self) -> None:
        """Let the caller that has waited longest read a piece, and move it to the end
        of the queue.
        """
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


def has_many_lines(data: bytes) -> bool:
    """Whether the data has very many line ends, which costs aiohttp's parser much time.

    JSON on the wire has none with a carriage return; `bytes.count` takes a hundred times as long.
    """
    at = -1
    for _ in range(_MANY_LINES + 1):
        at = data.find(b"\r", at + 1)
        if at < 0:
            return False
    return True
