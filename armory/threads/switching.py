"""How soon the interpreter leaves a thread that computes to the event loop.

Owns: the interpreter's switch interval. Never imports a room.
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
    """The interpreter's switch interval, shortened while anybody asks; one for the process, which
    may have several event loops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._usual_s = sys.getswitchinterval()

    @contextmanager
    def short(self) -> Generator[None]:
        """Shorten it to `SHORT_S` meanwhile."""
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
