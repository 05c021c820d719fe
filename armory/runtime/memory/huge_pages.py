"""Huge pages for the memory that each call goes through.

Owns: what is asked of Linux about the process's own memory. Never imports another room.

A call of Python code reads some thousand places of a heap that is spread over many pages; each page
of 4 KiB that the processor does not know has to be looked up, twice as long inside a virtual
machine. See docs/decisions/0024-huge-pages.md.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Generator, Iterable
from pathlib import Path

FULL = 0.9
"""A huge page is made only where at least this share is in use: the rest becomes memory, too."""
_COLLAPSE = 25
"""`MADV_COLLAPSE` of Linux 6.1 and later, madvise(2)."""
_SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
_ENTRY_BYTES, _PRESENT = 8, 0x80
"""The format of `/proc/self/pagemap`: bytes for each page, and the bit of the last byte that says
that the page is in memory."""


def use_huge_pages() -> int:
    """Move filled memory into huge pages, where the system allows it.

    In any thread, without the GIL while memory is moved: about a millisecond for each 4 MB.

    Returns:
        How many huge pages are in use after it; 0 on other systems, with an older kernel, and where
        transparent huge pages are set to `never`.
    """
    size = _page_bytes()
    if not size:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return sum(madvise(start, size, _COLLAPSE) == 0 for start in list(_filled(size)))


def _page_bytes() -> int:
    """The size of a huge page; 0 where there are none to be had."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        if "[never]" in (_SETTINGS / "enabled").read_text():
            return 0
        return int((_SETTINGS / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return 0


def _filled(size: int) -> Generator[int]:
    """Addresses where the process's memory fills a huge page of `size` bytes."""
    with (
        open("/proc/self/maps", encoding="utf-8", errors="replace") as ranges,
        open("/proc/self/pagemap", "rb", buffering=0) as pages,
    ):
        entries = size // mmap.PAGESIZE * _ENTRY_BYTES
        for start, end in list(anonymous(ranges)):
            for at in range(-(-start // size) * size, end - size + 1, size):
                pages.seek(at // mmap.PAGESIZE * _ENTRY_BYTES)
                if share_present(pages.read(entries)) >= FULL:
                    yield at


def anonymous(ranges: Iterable[str]) -> Generator[tuple[int, int]]:
    """Address ranges of private, writable, anonymous memory, from `/proc/self/maps`."""
    for line in ranges:
        place, rights, _, _, inode, *name = line.split(maxsplit=5)
        if rights == "rw-p" and inode == "0" and (not name or name[0].strip() == "[heap]"):
            start, _, end = place.partition("-")
            yield int(start, 16), int(end, 16)


def share_present(entries: bytes) -> float:
    """The share of pages that are resident, from `/proc/self/pagemap` entries."""
    last = entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES]
    return sum(byte >= _PRESENT for byte in last) / len(last) if last else 0.0
