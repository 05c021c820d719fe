"""Descriptors of the process: whether any are left for new connections.

Owns: the look. asyncio says when it cannot accept a connection for want of a descriptor; uvloop
accepts and closes all that wait, and tells nobody.
"""

from __future__ import annotations

import errno
import os
import resource

_SPARE = 8
"""With fewer left, what the next request needs beside its connection may not be had."""
_NONE = (errno.EMFILE, errno.ENFILE)


def used_up() -> OSError | None:
    """What the system says, or would say soon; None: there are descriptors."""
    try:
        lowest = os.open(os.devnull, os.O_RDONLY)
    except OSError as error:
        return error if error.errno in _NONE else None
    os.close(lowest)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or lowest < most - _SPARE:  # all below are in use
        return None
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))
