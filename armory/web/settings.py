"""The settings of the listening server, as plain values.

Owns: `ListenSettings` and its defaults. Never imports anything else of Armory.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Literal

EventLoop = Literal["asyncio", "uvloop", "auto"]
ReadyWhen = Literal["gateway", "any", "all"]
CONNECTIONS = 16_384
"""Most connections where nobody says how many: in containers a process may have a million
descriptors, but an idle connection takes 8 KB of memory, and another 8 before that is counted."""
RESERVED = 32
"""Connections beyond the cap, on which only health is answered."""


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """How a server listens and ends.

    Attributes:
        header_bytes: longest request line, and longest single header; 400 beyond.
        drain_timeout_s: how long requests in flight may go on when it closes, in seconds.
        connections: most at once; None: three quarters of the descriptors that the process has, but
            no more than `CONNECTIONS`.
        header_timeout_s: from connecting, or from the first byte of a later request, to the end
            of its header.
        body_timeout_s: from the end of the header to the end of the body.
        keepalive_timeout_s: how long a connection may wait for its next request.
        write_timeout_s: how long a client may take to read 64 KiB of what waits for it.
        unread_bytes: of all answers that wait for their clients to read them; with more, of the
            caller for whom most is held, the one that waits longest is cut.
        arriving_bytes: of all that came of requests and is not understood yet, headers included,
            where a connection holds more than 8 KiB of it; with more, of the caller for whom most
            is held, the one that began first is cut.
    """

    header_bytes: int = 96 * 1024
    drain_timeout_s: float = 30.0
    connections: int | None = None
    header_timeout_s: float = 20.0
    body_timeout_s: float = 60.0
    keepalive_timeout_s: float = 630.0
    write_timeout_s: float = 30.0
    unread_bytes: int = 96 << 20
    arriving_bytes: int = 64 << 20

    @property
    def capacity(self) -> int:
        """Most connections at once."""
        if self.connections is not None:
            return self.connections
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return CONNECTIONS
        return min(CONNECTIONS, max(16, soft * 3 // 4 - RESERVED))
