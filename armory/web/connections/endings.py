"""Cleans up after lost connections, a few in each iteration of the event loop.

Owns: `Endings`. A client that goes away can drop a thousand connections at once; cancelling all of
their requests in one round would keep everybody else waiting. Never looks at a connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 8
"""Clean-ups in one round: some 0.2 ms each, with the task that is cancelled."""
_NEXT_S = 0.001


class Endings:
    """A queue of clean-ups for lost connections."""

    def __init__(self) -> None:
        self._left: deque[Callable[[], None]] = deque()
        self._asked = False

    def __len__(self) -> int:
        return len(self._left)

    def add(self, end: Callable[[], None]) -> None:
        """Call `end` in one of the next iterations of the event loop."""
        self._left.append(end)
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._some)

    def _some(self) -> None:
        loop = asyncio.get_running_loop()
        some = [self._left.popleft() for _ in range(min(AT_ONCE, len(self._left)))]
        self._asked = bool(self._left)
        if self._asked:
            loop.call_later(_NEXT_S, self._some)
        for end in some:
            end()
