"""The receive buffer that the connections of a loop share.

Owns: the buffer, and the check for many lines. Never imports a connection.
"""

from __future__ import annotations

import threading

_READ_BYTES = 256 * 1024
_TLS_LEFT_BYTES = 32 * 1024
"""What TLS may have kept of records before, and has at hand along with all that was read."""
_MANY_LINES = 500


class Scratch(threading.local):
    """One buffer for each thread. The connections of its loop use it in turns: the bytes that one
    has read are processed or copied before the next one reads.
    """

    def __init__(self) -> None:
        self._bytes = bytearray(_READ_BYTES + _TLS_LEFT_BYTES)
        self.view = memoryview(self._bytes)

    def many_lines(self, size: int) -> bool:
        """Whether its first bytes have many lines; chunks and headers have at least one
        line each.
        """
        at = -1
        for _ in range(_MANY_LINES):
            at = self._bytes.find(b"\n", at + 1, size)
            if at < 0:
                return False
        return True
