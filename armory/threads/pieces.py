"""Sorting, copying and freeing many objects in pieces: in one step that would hold the interpreter
(GIL) for long.

Owns: `in_order`, `copied`, `let_go`, `Table` and the one thread that frees objects. Never imports a
room.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from queue import SimpleQueue
from typing import Any, TypeVar

from armory.threads.priorities import lower_priority

_K = TypeVar("_K")
_V = TypeVar("_V")
_MANY, _A_FEW = 2_000, 500
"""Objects from which on a thread frees them, and how many it frees at a time (0.5 ms). Texts are
sorted in pieces of the former size."""
_ASIDE_S = 0.00005


def in_order(texts: Iterable[str]) -> Iterator[str]:
    """Like `sorted`, but in pieces: one sort of 100,000 texts holds the interpreter for 10 ms."""
    left = list(texts)
    return merge(*(sorted(left[at : at + _MANY]) for at in range(0, len(left), _MANY)))


def copied(table: Mapping[_K, _V]) -> dict[_K, _V]:
    """Like `dict(table)`, but other threads get their turn meanwhile: 100,000 entries in one step
    hold the interpreter for 5 ms. Slower than that, so for work in a thread.
    """
    return {key: value for key, value in table.items()}  # noqa: C416


def let_go(held: list[Any] | dict[Any, Any]) -> None:
    """Free the objects of a long list or table in pieces, in a thread; a short one is left alone.

    Dropping the last reference to a large object frees everything in it at once: 100,000 tools hold
    the event loop for 0.1 s, whichever thread frees them. May be called from finalizers. Before the
    first `in_turn` there is no such thread, and the caller frees them.

    Args:
        held: the last reference to the objects.
    """
    if len(held) > _MANY:
        FREEING.take(held)


class Table(dict[_K, _V]):
    """A table whose objects are freed in pieces once it is no longer referenced; see `let_go`."""

    __slots__ = ()

    def __del__(self) -> None:
        let_go(self)


class FreeingThread:
    """A thread that frees objects. Its queue has no lock: finalizers run anywhere, also while a
    lock is held.
    """

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Reset the state in a forked process, where the thread does not exist."""
        self._waiting: SimpleQueue[list[Any] | dict[Any, Any]] = SimpleQueue()
        self._started = False

    def start(self) -> None:
        """Start the thread; calling it again does nothing."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="armory-free", daemon=True).start()

    def take(self, held: list[Any] | dict[Any, Any]) -> None:
        """Queue objects to be freed by the thread; before `start`, the caller frees them."""
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


FREEING = FreeingThread()
