"""Which thread has the core, and which the interpreter: the event loop first.

Owns: how soon a waking event loop runs, which threads go behind it, how often they take turns with
it, threads that nobody waits for, and sorting and ending much without keeping it. Never imports a
room: every one has threads.
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
from functools import partial
from heapq import merge
from queue import SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")

SHORT_S = 0.0002
"""The interpreter's own 5 ms pass at each system call of the event loop while a thread computes.
Always so short, a thread that writes rows takes the loop's turn at each row."""
GIVES_WAY = 3
"""Lower by so much, a thread that computes has a third of a core that it shares with the event
loop, which wakes some six times in a call."""
SLICE_NS, USUAL_NS = 100_000, 0
"""The shortest slice of a core that Linux gives, and the one that it gives by itself, 1 to 4 ms."""

CATALOG_NICE = 14
"""What is made of a catalog goes as far behind as what embeds it: where the event loop has all of a
core to do, a third of it for a catalog of 100,000 tools is half as long again for every call."""
_LEAST = 19
"""The lowest priority there is."""
_MANY, _A_FEW = 2_000, 500
"""Objects that end in a thread, and those of them that end at a time: 0.5 ms. So many texts are
sorted in one go, too."""
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


def step_forward() -> None:
    """Have the calling thread run as soon as it wakes, where Linux can do that (6.12 and later).

    Who asks for shorter slices is given no more of a core, but given it sooner: while three threads
    compute, an event loop waits 0.1 ms for the core that it shares with them, not 4 ms.
    """
    _here.first = True
    _slice(SLICE_NS)


def step_back(nice: int = GIVES_WAY) -> None:
    """Give the calling thread a priority so much lower, where threads have their own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(now + nice, _LEAST))
        _slice(USUAL_NS)  # it inherits those of the thread that began it


@contextmanager
def as_usual() -> Generator[None]:
    """Meanwhile the calling thread has usual slices: a process that it starts inherits them."""
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
    ctypes.CDLL(None).syscall(number, 0, ctypes.byref(wanted), 0)


class Turns:
    """Short turns for as long as somebody wants them; one object for the whole process."""

    def __init__(self) -> None:
        self._wanted = 0
        self._usual_s = sys.getswitchinterval()

    @contextmanager
    def short(self) -> Generator[None]:
        """Meanwhile threads take turns of `SHORT_S`. Entered from the event loop's thread alone."""
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
    """As `asyncio.to_thread`, for what takes long of a catalog: one at a time in the whole process.

    Each thread that computes may have the interpreter before the event loop has it again.
    """
    _ENDING.start()
    return await _run(_IN_TURN, work, *arguments)


async def for_callers(large: bool, work: Callable[..., _T], *arguments: Any) -> _T:
    """As `in_turn_if` for what a caller waits for: it is not behind what is made of catalogs."""
    if not large:
        return work(*arguments)
    with TURNS.short():
        return await _run(_FOR_CALLERS, work, *arguments)


async def _run(pool: ThreadPoolExecutor, work: Callable[..., _T], *arguments: Any) -> _T:
    run = partial(copy_context().run, work, *arguments)
    return await asyncio.get_running_loop().run_in_executor(pool, run)


async def in_turn_if(large: bool, work: Callable[..., _T], *arguments: Any) -> _T:
    """As `in_turn` where it is `large`; what is not is done at once."""
    if not large:
        return work(*arguments)
    with TURNS.short():
        return await in_turn(work, *arguments)


_IN_TURN = ThreadPoolExecutor(1, "armory-catalog", step_back, (CATALOG_NICE,))
_FOR_CALLERS = ThreadPoolExecutor(1, "armory-callers", step_back)


def unattended(work: Callable[[], _T], name: str) -> Future[_T]:
    """Do it in a daemon thread of its own, which nothing waits for at the end of the process.

    Args:
        work: what may hang for as long as some other machine pleases.
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
    """As `sorted`, for a thread: one sort of 100,000 texts keeps the interpreter for 10 ms."""
    left = list(texts)
    return merge(*(sorted(left[at : at + _MANY]) for at in range(0, len(left), _MANY)))


def let_go(held: list[Any]) -> None:
    """Have what only a list holds end a little at a time, in a thread; a short list ends as ever.

    Whoever drops the last reference to a large object ends everything in it at once: 100,000 tools
    keep the event loop for 0.1 s, whichever thread that is in. May be called wherever an object
    ends; so does all at once before anything was done `in_turn`.

    Args:
        held: the only reference to them, or the last that goes.
    """
    if len(held) > _MANY:
        _ENDING.take(held)


class _Ending:
    """A thread that destroys objects. It takes them without a lock: a last reference may be dropped
    wherever the interpreter frees an object, inside the code of a lock, too.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[list[Any]] = SimpleQueue()
        self._started = False

    def start(self) -> None:
        """Start the thread; calling it again does nothing."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="armory-end", daemon=True).start()

    def take(self, held: list[Any]) -> None:
        """Have the thread destroy these objects; before `start`, the caller does."""
        if self._started:
            self._waiting.put(held)

    def _run(self) -> None:
        step_back()
        while True:
            held = self._waiting.get()
            while held:
                del held[-_A_FEW:]
                time.sleep(_ASIDE_S)


_ENDING = _Ending()
