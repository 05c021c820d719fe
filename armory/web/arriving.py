"""Large request bodies that are not understood yet, counted over all connections.

Owns: `Bodies`, and who pays where too much is held. Cuts nobody itself; never looks at what is
said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

LARGE_BYTES = 256 * 1024
"""Smaller bodies are not counted: as many connections as there may be hold little of them."""


class Sender(Protocol):
    """A connection of a client.

    Attributes:
        caller: who asks on it.
        arrived: bytes of the body of its request, as far as they are counted.
    """

    caller: str
    arrived: int

    @property
    def request(self) -> Any:
        """The request that is being answered; None without one."""
        ...


S = TypeVar("S", bound=Sender)


class Bodies:
    """What is held of large bodies.

    Args:
        most: bytes of all together.

    Attributes:
        held: bytes now.
    """

    def __init__(self, most: int) -> None:
        self.held = 0
        self._most = most
        self._requests: dict[Any, Any] = {}

    def more(self, sender: Sender) -> None:
        """More of the body of its request came."""
        request = sender.request
        size = request.content.total_bytes
        if size <= LARGE_BYTES:
            return
        if self._requests.get(sender) is not request:
            self.done(sender)
            self._requests[sender] = request
        self.held += size - sender.arrived
        sender.arrived = size

    def done(self, sender: Sender) -> None:
        """Its body is understood, or it is gone."""
        if self._requests.pop(sender, None) is not None:
            self.held -= sender.arrived
            sender.arrived = 0

    def forget_answered(self) -> None:
        """Let go of bodies that whoever served them never said to have understood."""
        for sender, request in list(self._requests.items()):
            if sender.request is not request:
                self.done(sender)

    def too_much(self) -> Any | None:
        """Who is to be cut: of the caller for whom most is held, whose body began first; None:
        nobody is, a single body least of all.
        """
        if self.held <= self._most:
            return None
        self.forget_answered()
        if self.held <= self._most or len(self._requests) < 2:
            return None
        return of_whom_most_is_held(self._requests, _arrived)


def _arrived(sender: Sender) -> int:
    return sender.arrived


def of_whom_most_is_held(senders: Collection[S], held: Callable[[S], int]) -> S:
    """Of the caller for whom most is held, the connection that is first."""
    callers: Counter[str] = Counter()
    for sender in senders:
        callers[sender.caller] += held(sender)
    most = callers.most_common(1)[0][0]
    return next(sender for sender in senders if sender.caller == most)
