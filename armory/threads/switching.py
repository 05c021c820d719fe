"""The interpreter's switch interval: how soon a computing thread gives the interpreter to the event
loop.

Owns: changing that interval. Never imports a room.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

SHORT_S = 0.0002
"""With Python's own 5 ms, each system call of the event loop may wait so long for a thread that
computes. It is not always so short, since a thread that writes rows would then take the loop's turn
at each row."""


class SwitchInterval:
    """Shortens the interpreter's switch interval while anybody needs it. There is one for the
    process, which may have several event loops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._usual_s = sys.getswitchinterval()

    @contextmanager
    def short(self) -> Generator[None]:
        """Shorten the interval to `SHORT_S` for the block."""
        with self._lock:
            if not self._wanted:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual_s, SHORT_S))
            self._wanted += 1
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                if not self._wanted:
                    sys.setswitchinterval(self._usual_s)


SWITCH_INTERVAL = SwitchInterval()
