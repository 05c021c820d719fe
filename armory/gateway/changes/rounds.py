"""Notifies many listeners in slices of a millisecond.

Owns: `Rounds`. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable
from time import perf_counter

from armory.gateway.subscription import Subscription
from armory.steps import FLOODING

Tell = Callable[[Subscription], None]
_AT_ONCE = 64
_TURN_S = 0.001
_LONG_S = 0.005
"""Longest turn. Only its last client may exceed it: what changed for a client with rules of its own
may have to be worked out first.
"""
_WAITING = 64


class Rounds:
    """Notifies all listeners, one round after the other, first in, first out.

    A few listeners are notified at once. With thousands of sessions a round takes 10 to 50 ms,
    during which the event loop would answer nobody.
    """

    def __init__(self) -> None:
        self._waiting: deque[Generator[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def too_many(self) -> bool:
        """Whether so many rounds wait that an optional one should be dropped."""
        return len(self._waiting) >= _WAITING

    def begin(self, listening: Iterable[Subscription], tell: Tell) -> None:
        """Call `tell` with each current listener."""
        self._waiting.append(_each(tuple(listening), tell))
        if self._timer is None:
            self._go_on()

    def close(self) -> None:
        """Drop all rounds."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _go_on(self) -> None:
        self._timer = None
        began = perf_counter()
        while self._waiting:
            going = self._waiting.popleft()
            for _ in going:
                if (took := perf_counter() - began) > _TURN_S:
                    self._waiting.appendleft(going)
                    pause_s = FLOODING.wait_s(took)
                    self._timer = asyncio.get_running_loop().call_later(pause_s, self._go_on)
                    return


def _each(listening: tuple[Subscription, ...], tell: Tell) -> Generator[None]:
    told, began = 0, perf_counter()
    for subscription in listening:
        if told == _AT_ONCE or perf_counter() - began > _LONG_S:
            yield
            told, began = 0, perf_counter()
        tell(subscription)
        told += 1
