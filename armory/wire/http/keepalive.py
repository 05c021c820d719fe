"""Keep-alives for slow answers, with one timer for all of them.

Owns: `KeepaliveTimer`. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Protocol

from armory.wire.sse import KEEPALIVE_S

AT_ONCE = 32
"""Keep-alives written in one turn of the event loop: thousands of streams may be open."""
_NEXT_S = 0.002


class Waiting(Protocol):
    """An answer that has been silent for a while."""

    def keep_alive(self) -> None:
        """Write a keep-alive; must not block."""
        ...


class KeepaliveTimer:
    """Calls the answers that have been silent for too long.

    Args:
        silence_s: how long is too long, in seconds.
    """

    def __init__(self, silence_s: float = KEEPALIVE_S) -> None:
        self._silence_s = silence_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Waiting, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiting: Waiting) -> None:
        """Start writing keep-alives to it."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._waiting[waiting] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._silence_s / 3, self._call)

    def drop(self, waiting: Waiting) -> None:
        """Stop writing keep-alives to it."""
        self._waiting.pop(waiting, None)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(list(self._waiting))

    def __contains__(self, waiting: Waiting) -> bool:
        return waiting in self._waiting

    def _call(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        some = list(itertools.islice(self._waiting.items(), AT_ONCE))
        for waiting, since in some:
            if now - since < self._silence_s * 2 / 3:
                some = []
                break
            del self._waiting[waiting]
            self._waiting[waiting] = now
            waiting.keep_alive()
        next_s = _NEXT_S if len(some) == AT_ONCE else self._silence_s / 3
        self._timer = loop.call_later(next_s, self._call) if self._waiting else None

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
