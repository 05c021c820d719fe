"""Growing a bytearray for a large body without filling it with zeros first.

Owns: `grown`. Never imports a connection.
"""

from __future__ import annotations

import ctypes

# bytearray(size) and += write zeros first: all pages at once, in one turn, and each byte twice.
# Huge pages are not asked for: they cost a third as much where the machine has them at hand, and
# several times as much in a virtual one, whose host has to find memory for each (measured).
_resize = ctypes.pythonapi.PyByteArray_Resize
_resize.argtypes, _resize.restype = (ctypes.py_object, ctypes.c_ssize_t), ctypes.c_int


def grown(body: bytearray, size: int) -> memoryview:
    """Extend a body to `size` bytes; the new part is uninitialised until it is written.

    Args:
        body: its beginning.
        size: in bytes, at least as many as it has.

    Returns:
        All of it, to be written to.

    Raises:
        BufferError: a view of it exists.
    """
    _resize(body, size)
    return memoryview(body)
