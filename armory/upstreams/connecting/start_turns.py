"""Start turns: a limited number of processes start at once, the others wait in line.

Owns: who starts now, and what is said of who waits. Never imports the pool.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from armory.upstreams.connecting.starting import LOOK_S, Starting
from armory.upstreams.spec import CONCURRENT_STARTS


class Waiting:
    """A start that waits for its turn.

    Args:
        turns: where it waits.

    Attributes:
        owner: as of `Starting`: the gateway's own, as other starts take no turns.
    """

    owner = ""

    def __init__(self, turns: StartTurns) -> None:
        self._turns = turns
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def status_text(self) -> str:
        """What it waits for, for people."""
        return self._turns.status_text_of(self)


class Starter(Protocol):
    """Something that lists what its starts wait for."""

    awaited: list[Starting | Waiting]


class StartTurns:
    """At most `limit` starts at once, first come, first served.

    Args:
        limit: of starts; at least 1.
        look_s: seconds; a start that did nothing for so long, as one that waits for a login does,
            lets the next begin, and goes on beside it.
    """

    def __init__(self, limit: int = CONCURRENT_STARTS, look_s: float = LOOK_S) -> None:
        self._limit = self._free = limit
        self._look_s = look_s
        self._line: list[Waiting] = []

    def status_text_of(self, waiting: Waiting) -> str:
        """What `waiting` waits for, for people."""
        before = self._line.index(waiting) if waiting in self._line else 0
        next_ones = f", {before} come{'s' if before == 1 else ''} before it" if before else ""
        others = "another starts now" if self._limit == 1 else f"{self._limit} others start now"
        return f"waits for its turn: {others}{next_ones} (server.limits.concurrent_starts)"

    @contextlib.asynccontextmanager
    async def turn(self, starter: Starter) -> AsyncGenerator[None]:
        """Wait for a turn, and hold it while the block runs."""
        await self._come(starter)
        turn = _Turn(starter, self._look_s, self._next)
        try:
            yield
        finally:
            turn.end()

    async def _come(self, starter: Starter) -> None:
        if self._free:
            self._free -= 1
            return
        waiting = Waiting(self)
        starter.awaited.append(waiting)
        self._line.append(waiting)
        try:
            await waiting.granted
        except asyncio.CancelledError:
            if waiting in self._line:
                self._line.remove(waiting)
            elif not waiting.granted.cancelled():  # else it was passed over
                self._next()
            raise
        finally:
            starter.awaited.remove(waiting)

    def _next(self) -> None:
        while self._line:
            waiting = self._line.pop(0)
            if not waiting.granted.done():  # nobody gave it up meanwhile
                waiting.granted.set_result(None)
                return
        self._free += 1


class _Turn:
    """One start's turn: ends with the start, or when the start shows no activity any more."""

    def __init__(self, starter: Starter, look_s: float, on_end: Callable[[], None]) -> None:
        self._starter = starter
        self._look_s = look_s
        self._on_end = on_end
        self._before: list[tuple[Starting, int]] = []
        self._looking: asyncio.TimerHandle | None = None
        self._look_later()

    def end(self) -> None:
        """Let the next start begin; has an effect once."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
            self._on_end()

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(self._look_s, self._look)

    def _look(self) -> None:
        awaited = self._starter.awaited
        now = [(one, one.work_done()) for one in awaited if isinstance(one, Starting)]
        if now and now == self._before:
            self.end()
            return
        self._before = now
        self._look_later()
