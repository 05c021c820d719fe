"""Returns free memory of the process to the system.

Owns: what is asked of glibc's allocator. Never imports another room.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from functools import cache

from armory.runtime.memory.file_pages import file_bytes, let_go

LARGE_BYTES = 2 << 20
"""Buffers from this size on are memory of their own, which goes back with them."""
TOP_BYTES = 8 << 20
"""How much stays free at the end of the heap. An answer of 1 MiB takes five times that on its way;
with less, each gives its pages back and has the next one fault them in again."""
FREE_BYTES = 24 << 20
"""Free memory between used blocks from which on it is given back to the system, if as much was
allocated or freed since the last time, as by a crowd of clients."""
LOADED_BYTES, AGAIN_BYTES = 12 << 20, 18 << 20
"""Growth of mapped files from which on their pages are released, after libraries were loaded; and
the growth for each later time, as when a model is loaded. Pages in use, some 8 MB, come back."""
IDLE_SHARE = 0.25
"""Share of a core below which, within one look, loading or embedding counts as finished."""
LOOK_S = 2.0
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def give_back() -> bool:
    """Have the allocator return unused memory; in any thread, without the GIL, some milliseconds
    for each hundred MB.

    Returns:
        Whether there was anything; False as well where the allocator is another (musl, macOS).
    """
    trim = _glibc("malloc_trim", ctypes.c_size_t)
    return trim is not None and bool(trim(0))


class _Held(ctypes.Structure):
    """`struct mallinfo2`, mallinfo(3): bytes."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def free_bytes() -> int:
    """Bytes in the allocator that nothing uses, returned to the system or not; 0 where unknown."""
    held = _glibc("mallinfo2")
    if held is None:
        return 0
    held.restype = _Held  # pyright: ignore[reportFunctionMemberAccess]
    found: _Held = held()  # pyright: ignore[reportAssignmentType]
    return found.fordblks


async def return_free_memory() -> None:
    """Until cancelled, return free memory between memory in use.

    Large answers leave a heap that is half empty, but never shrinks below its last small object.
    Pages of mapped files are released once the process does little (`file_pages`).
    """
    least, fewest = resident_bytes(), free_bytes()
    kept, loaded = 0, LOADED_BYTES
    while True:
        used, began = time.process_time(), time.monotonic()
        await asyncio.sleep(LOOK_S)
        idle = time.process_time() - used < IDLE_SHARE * (time.monotonic() - began)
        if idle and file_bytes() - kept >= loaded:
            await asyncio.to_thread(let_go)
            kept, loaded = file_bytes(), AGAIN_BYTES
        least = min(least, now := resident_bytes())
        fewest = min(fewest, free := free_bytes())
        came, freed = now - least >= FREE_BYTES, free - fewest >= FREE_BYTES
        if freed or (came and free >= FREE_BYTES):
            await asyncio.to_thread(give_back)
            least, fewest = resident_bytes(), free_bytes()


def resident_bytes() -> int:
    """The resident memory of this process; 0 where unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def return_large_buffers() -> bool:
    """Have large buffers returned to the system as soon as they are freed, for the life of the
    process.

    By default glibc keeps buffers of up to 32 MiB in its heap once one of that size was freed: a
    few hundred MB of unread answers would leave a heap of that size, held by small objects between
    them.

    Returns:
        Whether the allocator does; False where it is another.
    """
    option = _glibc("mallopt", ctypes.c_int, ctypes.c_int)
    return (
        option is not None
        and bool(option(_MMAP_THRESHOLD, LARGE_BYTES))
        and bool(option(_TRIM_THRESHOLD, TOP_BYTES))
    )


@cache  # the library as an object is a cycle: a few kept, not one at each look
def _glibc(name: str, *takes: type) -> Callable[..., int] | None:
    """A function of glibc; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        if not hasattr(library, "gnu_get_libc_version"):
            return None
        found = library[name]
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = takes, ctypes.c_int
    return found
