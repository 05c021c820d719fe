"""Thread priorities: the event loop's thread comes first, others run behind it.

Owns: nice values and time slices of threads. Never imports a room.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache

GIVES_WAY = 3
"""A thread with this nice value gets a third of the core that it shares with the event loop, which
wakes some six times in a call."""
SLICE_NS, USUAL_NS = 100_000, 0
"""The shortest slice of a core that Linux grants; 0 is its default, 1 to 4 ms."""
_LEAST = 19
"""The lowest priority there is."""
_SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
"""The number of `sched_setattr`, by machine; Python and glibc before 2.41 have none."""

_here = threading.local()


class _Attributes(ctypes.Structure):
    """`struct sched_attr`, its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def wake_sooner() -> None:
    """Ask Linux (6.12 and later) to run the calling thread sooner after it wakes.

    A thread with shorter slices gets no more of a core, but gets it sooner: while three threads
    compute, an event loop waits 0.1 ms for the core that it shares with them, not 4 ms.
    """
    _here.first = True
    _slice(SLICE_NS)


def lower_priority(nice: int = GIVES_WAY) -> None:
    """Raise the calling thread's nice value by this much, where threads have their own (Linux)."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(now + nice, _LEAST))
        _slice(USUAL_NS)  # not the slices of the thread that started it


@contextmanager
def default_slice() -> Generator[None]:
    """Give the calling thread the default time slice for the block: a process started in it
    inherits the slice.
    """
    if not getattr(_here, "first", False):
        yield
        return
    _slice(USUAL_NS)
    try:
        yield
    finally:
        _slice(SLICE_NS)


def _slice(nanoseconds: int) -> None:
    number = _SET_ATTRIBUTES.get(platform.machine()) if sys.platform == "linux" else None
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    wanted = _Attributes(size=ctypes.sizeof(_Attributes), nice=nice, runtime=nanoseconds)
    # An older kernel takes no notice; where a sandbox refuses it, all stays as it is.
    _libc().syscall(number, 0, ctypes.byref(wanted), 0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)  # once: each is a cycle of objects
