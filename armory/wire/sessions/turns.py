"""Turns of the event loop that many requests of one caller take one after another.

Owns: `OneATurn`. A hundred requests that begin at once are one long turn, in which nobody else is
answered. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class OneATurn:
    """Lets one request of each caller begin in a turn of the event loop."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def next(self, caller: str) -> None:
        """Wait for a turn in which no other request of the caller begins."""
        lock = self._locks.get(caller)
        if lock is None:
            lock = self._locks[caller] = asyncio.Lock()
        async with lock:
            await asyncio.sleep(0)
