"""What a coroutine's steps take of the event loop, and whose time that is.

Owns: `InContext`, which runs a coroutine and tells an account. Never imports a room: those of both
fronts tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
_TOLD_S = 0.0005
"""What steps take is told once it is so much, or the request has ended."""


class Account(Protocol):
    """One caller's share of the event loop."""

    @property
    def clock(self) -> Callable[[], float]:
        """The clock that steps are measured by, in seconds."""
        ...

    @property
    def beside_others(self) -> bool:
        """Whether somebody else asked something lately."""
        ...

    def spend(self, took: float) -> None:
        """Count `took` seconds of the event loop against the caller."""
        ...


class Accounted(Protocol):
    """A connection whose use of the event loop is counted."""

    @property
    def account(self) -> Account | None:
        """Of the caller on it; None: nothing is counted."""
        ...


class InContext(Generic[T]):
    """Awaits a coroutine in the present task, yet in a context of its own.

    What the coroutine sets of context variables ends with it, as if a task ran it.

    Args:
        coroutine: what is run.
        on: the connection for which it is; its `account` is told how long the steps took.
    """

    __slots__ = ("_coroutine", "_on")

    def __init__(self, coroutine: Coroutine[Any, Any, T], on: Accounted) -> None:
        self._coroutine = coroutine
        self._on = on

    def __await__(self) -> Generator[Any, Any, T]:
        """Run it to its end."""
        coroutine, run, on = self._coroutine, copy_context().run, self._on
        step, value = coroutine.send, None
        clock = perf_counter if on.account is None else on.account.clock
        used, begun = 0.0, clock()
        try:
            while True:
                awaited = run(step, value)
                used += clock() - begun
                if used > _TOLD_S and on.account is not None:
                    on.account.spend(used)
                    used = 0.0
                try:
                    value, step = (yield awaited), coroutine.send
                except BaseException as thrown:  # noqa: BLE001 cancellation, above all
                    value, step = thrown, coroutine.throw
                begun = clock()
        except StopIteration as ended:
            if on.account is not None:
                on.account.spend(used + clock() - begun)
            return ended.value
        finally:
            value = step = None  # an error that passes holds this frame by its trace
