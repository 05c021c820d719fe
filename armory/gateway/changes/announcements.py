"""Debounces announcements of changed lists: the first passes at once, repeats at most every 50 ms.

Owns: `Announcements`. Never imports the pool or a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from armory.protocol.session_events import Notified

INTERVAL_S = 0.05
"""Seconds between two of the same: for each, every open session is looked at."""
_Key = tuple[str, str, str]


class Announcements:
    """Passes on the first announcement and, of those within `INTERVAL_S` after it, the last.

    Args:
        tell: is given what is passed on; on the event loop.
    """

    def __init__(self, tell: Callable[[Notified], None]) -> None:
        self._tell = tell
        self._timers: dict[_Key, asyncio.TimerHandle] = {}
        self._last: dict[_Key, Notified] = {}

    def take(self, event: Notified) -> None:
        """An upstream announced that lists changed; call on the event loop."""
        key = event.server, event.owner, event.method
        if key in self._timers:
            self._last[key] = event
            return
        self._rest(key)
        self._tell(event)

    def _rest(self, key: _Key) -> None:
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(INTERVAL_S, self._rested, key)

    def _rested(self, key: _Key) -> None:
        del self._timers[key]
        event = self._last.pop(key, None)
        if event is not None:
            self._rest(key)
            self._tell(event)

    def close(self) -> None:
        """Drop pending announcements."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._last.clear()
