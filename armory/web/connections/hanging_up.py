"""Detects clients that disconnect while reading is paused.

Owns: the check. An event loop notices the end of a connection only where it reads.
"""

from __future__ import annotations

import asyncio
import select

_END = getattr(select, "POLLRDHUP", 0)
"""Linux tells with it that no more comes; macOS with the flags that nobody has to ask for."""


def end_if_hung_up(transport: asyncio.Transport) -> None:
    """End a connection that its client has closed or reset, as the event loop does while it reads.

    Data that the client sent before may still be unread in the kernel: then the end is not seen yet
    either.
    """
    made = transport.get_extra_info("socket")
    if made is None or made.fileno() < 0:
        return
    poll = select.poll()
    poll.register(made.fileno(), _END)
    if poll.poll(0):
        transport.close()
