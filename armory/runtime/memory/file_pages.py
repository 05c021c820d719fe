"""Releases pages of mapped files that a process has used once.

Owns: what is asked of Linux about mapped files. Never imports another room.

Half of the code of onnxruntime, NumPy and SQLite runs while they load and not again, yet counts as
memory of the process for as long as nobody else wants it: with the model some 40 MB. What is used
again comes back from the system's own copy of the file, without a disk: some microseconds for each
64 KB.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Generator, Iterable

_DONT_NEED = 4
"""`MADV_DONTNEED`, madvise(2)."""


def let_go() -> int:
    """Release mapped file pages that were never written to from this process's memory.

    In any thread, without the GIL: some milliseconds.

    Returns:
        How many bytes that were; 0 on other systems.
    """
    if not sys.platform.startswith("linux"):
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    before = file_bytes()
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as mappings:
            found = list(unwritten(mappings))
    except OSError:
        return 0
    for start, end in found:
        madvise(start, end - start, _DONT_NEED)
    return max(0, before - file_bytes())


def file_bytes() -> int:
    """The memory of this process that is mapped from files; 0 where unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[2]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def unwritten(lines: Iterable[str]) -> Generator[tuple[int, int]]:
    """Address ranges of file mappings without private pages.

    Writable mappings are left out, and so are those that were writable before, such as a library's
    relocated tables: their pages would come back as they are in the file.

    Args:
        lines: of `/proc/self/smaps`.
    """
    place: tuple[int, int] | None = None
    for line in lines:
        name, *values = line.split(maxsplit=5)
        if not name.endswith(
            ":"
        ):  # the head of a mapping: addresses, rights, offset, device, inode
            start, _, end = name.partition("-")
            of_a_file = values[0][1] == "-" and values[0][3] == "p" and values[3] != "0"
            place = (int(start, 16), int(end, 16)) if of_a_file else None
        elif name == "Anonymous:" and place is not None and values[0] == "0":
            yield place
