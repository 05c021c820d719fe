"""Scheduling of reads when several large bodies arrive at once.

Owns: `LargeReads`. One piece of a large body delays nobody. Pieces of ten bodies in one round of
the event loop delay every step of every call, and so do thirty pieces of one body: libuv reads a
socket that often in a round while there is data. So one connection reads in each round, and while
others keep the loop busy, the next MiB waits for a moment. Never imports a connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Protocol
from weakref import WeakKeyDictionary

PIECE_BYTES = 256 * 1024
"""How much of a body is read at a time while others arrive too."""
ROUND_BYTES = 1 << 20
"""How much of a body that arrives alone is read in a round, give or take a piece."""
_BUSY_S = 0.0002
"""Two rounds that take longer mean that the loop is busy with something else."""
_REST_S = 0.001
"""The pause then, about as long as reading took: others get at least half of the loop."""


class Reading(Protocol):
    """A connection that reads a large body."""

    def hold(self) -> None:
        """Pause reading until `go_on`."""
        ...

    def go_on(self) -> None:
        """Resume reading, if the connection is still open."""
        ...


class LargeReads:
    """Lets one connection read a piece in each iteration of the event loop, or several pieces if it
    is the only one. One for each loop.
    """

    def __init__(self) -> None:
        self._reading: set[Reading] = set()
        self._waiting: deque[Reading] = deque()
        self._due = False
        self._taken_bytes = 0  # since the last rest
        self._since = 0.0

    @property
    def shared(self) -> bool:
        """Whether several connections read large bodies."""
        return len(self._reading) > 1

    def begin(self, one: Reading) -> None:
        """Register a connection that starts to read a large body."""
        self._reading.add(one)

    def end(self, one: Reading) -> None:
        """Remove a connection that has read its body, or gave up."""
        self._reading.discard(one)

    def took(self, one: Reading, size: int) -> None:
        """A connection has read a piece of `size` bytes; it continues after the others had their
        turns.
        """
        self._taken_bytes += size
        if len(self._reading) < 2 and self._taken_bytes < ROUND_BYTES:
            return
        one.hold()
        self._waiting.append(one)
        if not self._due:
            self._due = True
            self._pass()

    def _pass(self) -> None:
        """Wait for two iterations of the loop: what is read in the first is processed in the
        second.
        """
        self._since = time.perf_counter()
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._next)

    def _next(self) -> None:
        if self._taken_bytes >= ROUND_BYTES:
            self._taken_bytes = 0
            if time.perf_counter() - self._since > _BUSY_S:
                asyncio.get_running_loop().call_later(_REST_S, self._next)
                return
        self._waiting.popleft().go_on()
        if self._waiting:
            self._pass()
        else:
            self._due = False


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LargeReads] = WeakKeyDictionary()


def large_reads() -> LargeReads:
    """The `LargeReads` of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = LargeReads()
    return found
