"""One event loop at a time.

Owns: `OneLoop`. Never imports a room.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from armory.errors import InvalidRequest

_ELSEWHERE = (
    "another event loop uses this memory now, and locks and threads of it belong to that one; make "
    "one for each loop, or a ToolMemory, which any thread may use"
)


class OneLoop:
    """Refuses work in one event loop while there is some in another: its locks would refuse it in
    words that say nothing, or wait for ever. One loop after the other is all right.
    """

    def __init__(self) -> None:
        self._under_way: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
        self._gate = threading.RLock()  # a selection that was abandoned ends wherever it is freed

    @contextmanager
    def here(self) -> Generator[None]:
        """For the time of one piece of work in the running loop.

        Raises:
            InvalidRequest: there is some in another loop that is not closed.
        """
        loop = asyncio.get_running_loop()
        with self._gate:
            for other, count in self._under_way.items():
                if count and other is not loop and not other.is_closed():
                    raise InvalidRequest(_ELSEWHERE)
            self._under_way[loop] = self._under_way.get(loop, 0) + 1
        try:
            yield
        finally:
            with self._gate:
                self._under_way[loop] = self._under_way.get(loop, 1) - 1
