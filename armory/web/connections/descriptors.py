"""Whether the process has file descriptors left for new connections.

Owns: the check, and how many it has at least. asyncio reports when it cannot accept a connection
for lack of a descriptor; uvloop silently accepts and closes all that wait.
"""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

_SPARE = 8
"""Descriptors that a request may need beside its connection."""
_NONE = (errno.EMFILE, errno.ENFILE)

USUAL = 1_024
"""What Linux grants a process. A shell of macOS grants 256, which sixty stdio servers use up."""


def have_usual() -> None:
    """Raise the soft limit of file descriptors to `USUAL`, where the hard limit allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = USUAL if hard == resource.RLIM_INFINITY else min(USUAL, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def used_up() -> OSError | None:
    """The error that opening a descriptor gives, or would soon give; None while enough are left."""
    try:
        lowest = os.open(os.devnull, os.O_RDONLY)
    except OSError as error:
        return error if error.errno in _NONE else None
    os.close(lowest)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or lowest < most - _SPARE:  # all below are in use
        return None
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))
