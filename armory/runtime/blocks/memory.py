"""Memory that is free inside the process, given back to the system.

Owns: the only call of glibc's `malloc_trim`. Never imports another room.
"""

from __future__ import annotations

import ctypes
import sys


def give_back() -> bool:
    """Have the allocator give back what it holds and does not use; in any thread, with the GIL
    free, some milliseconds for each hundred MB.

    Returns:
        Whether there was anything; False as well where the allocator is another (musl, macOS,
        Windows).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    return bool(trim(0))
