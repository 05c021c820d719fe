"""Threads beside the event loop, which comes first: on its core, and with the interpreter.

Owns: scheduling priorities, the interpreter's switch interval, pools for long work on a catalog,
daemon threads, and sorting or freeing many objects in pieces. Never imports a room: every one has
threads.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache, partial
from heapq import merge
from queue import SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")

SHORT_S = 0.0002
"""With Python's own 5 ms, each system call of the event loop may wait so long for a thread that
computes. It is not always so short, since a thread that writes rows would then take the loop's turn
at each row."""
GIVES_WAY = 3
"""A thread with this nice value gets a third of the core that it shares with the event loop, which
wakes some six times in a call."""
SLICE_NS, USUAL_NS = 100_000, 0
"""The shortest slice of a core that Linux grants; 0 is its default, 1 to 4 ms."""

CATALOG_NICE = 14
"""The nice value of work on a catalog, as of embedding it. Where the event loop needs a whole core,
giving a third of it to a catalog of 100,000 tools would make every call half as long again."""
_LEAST = 19
"""The lowest priority there is."""
_MANY, _A_FEW = 2_000, 500
"""Objects from which on a thread frees them, and how many it frees at a time (0.5 ms). Texts are
sorted in pieces of the former size."""
_ASIDE_S = 0.00005
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
    """Raise the calling thread's nice value by so much, where each thread has its own (Linux)."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(now + nice, _LEAST))
        _slice(USUAL_NS)  # not the slices of the thread that started it


@contextmanager
def default_slice() -> Generator[None]:
    """Give the calling thread default slices meanwhile: a process that it starts inherits them."""
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


class Turns:
    """The interpreter's switch interval, shortened while anybody asks; one for the process."""

    def __init__(self) -> None:
        self._wanted = 0
        self._usual_s = sys.getswitchinterval()

    @contextmanager
    def short(self) -> Generator[None]:
        """Shorten it to `SHORT_S` meanwhile. Enter it from the event loop's thread only."""
        if not self._wanted:
            self._usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(self._usual_s, SHORT_S))
        self._wanted += 1
        try:
            yield
        finally:
            self._wanted -= 1
            if not self._wanted:
                sys.setswitchinterval(self._usual_s)


TURNS = Turns()


async def in_turn(work: Callable[..., _T], *arguments: Any) -> _T:
    """As `asyncio.to_thread`, for long work on a catalog: one at a time in the whole process.

    Every further computing thread may take the interpreter before the event loop gets it back.
    """
    _ENDING.start()
    return await _run(_IN_TURN, work, *arguments)


async def for_callers(large: bool, work: Callable[..., _T], *arguments: Any) -> _T:
    """As `in_turn_if`, for what a caller waits for: it does not queue behind work on catalogs."""
    if not large:
        return work(*arguments)
    with TURNS.short():
        return await _run(_FOR_CALLERS, work, *arguments)


async def _run(pool: ThreadPoolExecutor, work: Callable[..., _T], *arguments: Any) -> _T:
    run = partial(copy_context().run, work, *arguments)
    return await asyncio.get_running_loop().run_in_executor(pool, run)


async def in_turn_if(large: bool, work: Callable[..., _T], *arguments: Any) -> _T:
    """As `in_turn` where the work is `large`; else do it at once."""
    if not large:
        return work(*arguments)
    with TURNS.short():
        return await in_turn(work, *arguments)


_IN_TURN = ThreadPoolExecutor(1, "armory-catalog", lower_priority, (CATALOG_NICE,))
_FOR_CALLERS = ThreadPoolExecutor(1, "armory-callers", lower_priority)


def unattended(work: Callable[[], _T], name: str) -> Future[_T]:
    """Run `work` in a daemon thread of its own, which the end of the process does not wait for.

    Args:
        work: what may hang, on another machine for example.
        name: the thread's, for debuggers.
    """
    found: Future[_T] = Future()
    found.set_running_or_notify_cancel()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # noqa: BLE001 told to whoever waits
            found.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return found


def in_order(texts: Iterable[str]) -> Iterator[str]:
    """As `sorted`, but in pieces: one sort of 100,000 texts holds the interpreter for 10 ms."""
    left = list(texts)
    return merge(*(sorted(left[at : at + _MANY]) for at in range(0, len(left), _MANY)))


def let_go(held: list[Any] | dict[Any, Any]) -> None:
    """Free the objects of a long list or table a few at a time, in a thread; a short one is left.

    Dropping the last reference to a large object frees everything in it at once: 100,000 tools hold
    the event loop for 0.1 s, whichever thread frees them. May be called from finalizers. Before the
    first `in_turn` there is no such thread, and the caller frees them.

    Args:
        held: the last reference to the objects.
    """
    if len(held) > _MANY:
        _ENDING.take(held)


class Table(dict[_K, _V]):
    """A table whose objects are freed a few at a time, once nobody holds it; see `let_go`."""

    __slots__ = ()

    def __del__(self) -> None:
        let_go(self)


class _Ending:
    """A thread that frees objects. It takes them without a lock: a finalizer may run anywhere, also
    inside the code of a lock.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[list[Any] | dict[Any, Any]] = SimpleQueue()
        self._started = False

    def start(self) -> None:
        """Start the thread; calling it again does nothing."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="armory-end", daemon=True).start()

    def take(self, held: list[Any] | dict[Any, Any]) -> None:
        """Have the thread free these objects; before `start`, the caller does."""
        if self._started:
            self._waiting.put(held)

    def _run(self) -> None:
        lower_priority()
        while True:
            held = self._waiting.get()
            while held:
                if isinstance(held, dict):
                    for _ in range(min(_A_FEW, len(held))):
                        held.popitem()
                else:
                    del held[-_A_FEW:]
                time.sleep(_ASIDE_S)


_ENDING = _Ending()
