"""Charging the event loop time of a coroutine, step by step, to the caller whose request it is.

Owns: `InContext`, which runs a coroutine and charges an account, and `Flooding`, the common limit
on large bursts of data. Never imports a room: MCP and REST both use it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from time import monotonic, perf_counter
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
_CHARGED_S = 0.0005
"""Time is charged once it adds up to this much, or at the request's end."""


class Flooding:
    """Limits the share of the event loop that large bursts of data take, from all peers together.

    With one limit for each peer, twenty that begin at the same moment would still add up to a long
    pause.

    Args:
        share: of the loop.
        clock: seconds, monotonic.
    """

    def __init__(self, share: float = 0.5, clock: Callable[[], float] = monotonic) -> None:
        self._share = share
        self._clock = clock
        self._free_at = 0.0

    def wait_s(self, took: float) -> float:
        """Record that a burst has just taken so many seconds; returns how long reading from its
        sender should pause.
        """
        now = self._clock()
        self._free_at = max(self._free_at, now - took) + took / self._share
        return max(self._free_at - now, 0.0)


FLOODING = Flooding()


class Account(Protocol):
    """One caller's share of the event loop."""

    key: str

    @property
    def clock(self) -> Callable[[], float]:
        """The clock that steps are measured by, in seconds."""
        ...

    @property
    def beside_others(self) -> bool:
        """Whether other callers were active lately."""
        ...

    def spend(self, took: float) -> None:
        """Count `took` seconds of the event loop against the caller."""
        ...


class Accounted(Protocol):
    """A connection whose use of the event loop is counted."""

    @property
    def account(self) -> Account | None:
        """The account of its caller; None: nothing is counted."""
        ...


class InContext(Generic[T]):
    """Awaits a coroutine in the present task, yet in a context of its own.

    What the coroutine sets of context variables ends with it, as if a task ran it.

    Args:
        coroutine: what is run.
        on: the connection whose `account` is charged with the time that the steps take.
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
                if used > _CHARGED_S and on.account is not None:
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
            value = step = awaited = None  # an error that passes holds this frame by its trace
