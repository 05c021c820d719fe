"""Room for a large body, there at once: nothing is written to it before what arrives.

Owns: `grown`. Never imports a connection.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

HUGE_BYTES = 4 << 20
"""From so much on, huge pages are asked for: Linux makes 2 MiB at a time of them, where it would
make 4 KiB, which takes three times as long as to copy what arrives."""
_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)

# bytearray(size) and += write zeros first: all pages at once, in one turn, and each byte twice
_resize = ctypes.pythonapi.PyByteArray_Resize
_resize.argtypes, _resize.restype = (ctypes.py_object, ctypes.c_ssize_t), ctypes.c_int


def _madvise() -> Any:
    if _HUGE is None:
        return None
    found = getattr(ctypes.CDLL(None), "madvise", None)
    if found is not None:
        found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


_advise = _madvise()


def grown(body: bytearray, size: int) -> memoryview:
    """Make a body `size` bytes long; what is new in it holds anything until it is written to.

    Args:
        body: its beginning; nobody has a view of it.
        size: in bytes, at least as many as it has.

    Returns:
        All of it, to be written to.
    """
    _resize(body, size)
    view = memoryview(body)
    if size >= HUGE_BYTES and _advise is not None:
        begin = ctypes.addressof(ctypes.c_char.from_buffer(view))
        first = -begin % mmap.PAGESIZE  # in whole pages; where it does not help, nothing is lost
        _advise(begin + first, (size - first) // mmap.PAGESIZE * mmap.PAGESIZE, _HUGE)
    return view
