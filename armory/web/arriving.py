"""Memory of large request bodies that are still arriving or being parsed, over all connections.

Owns: `ArrivingBodies`, and the choice of the connection to cut when they hold too much. Never cuts
one itself, never reads the content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

LARGE_BYTES = 256 * 1024
"""Smaller bodies are not counted: even all connections together hold little of them."""


class Sender(Protocol):
    """A connection of a client.

    Attributes:
        caller: whose requests it carries.
        arrived: bytes of its request's body that are counted here.
    """

    caller: str
    arrived: int

    @property
    def request(self) -> Any:
        """The request that is being answered; None without one."""
        ...


S = TypeVar("S", bound=Sender)


class ArrivingBodies:
    """The bytes that large bodies hold.

    Args:
        most: the most that all of them may hold, in bytes.

    Attributes:
        held: bytes held now.
    """

    def __init__(self, most: int) -> None:
        self.held = 0
        self._most = most
        self._requests: dict[Any, Any] = {}

    def more(self, sender: Sender) -> None:
        """More of the body of the sender's request has arrived."""
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
        """The sender's body has been parsed, or the sender is gone."""
        if self._requests.pop(sender, None) is not None:
            self.held -= sender.arrived
            sender.arrived = 0

    def forget_answered(self) -> None:
        """Stop counting bodies of answered requests whose handlers never called `done`."""
        for sender, request in list(self._requests.items()):
            if sender.request is not request:
                self.done(sender)

    def too_much(self) -> Any | None:
        """The connection to cut, or None while there is room; a single body is never cut.

        It is the caller's who holds most, and of that caller's the one whose body began first.
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
    """The first connection of the caller who holds most."""
    callers: Counter[str] = Counter()
    for sender in senders:
        callers[sender.caller] += held(sender)
    most = callers.most_common(1)[0][0]
    return next(sender for sender in senders if sender.caller == most)
