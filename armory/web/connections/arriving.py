"""Memory of incoming data: headers, bodies, and requests that arrive ahead of their turn.

Owns: `Arriving`, and the choice of the connection to cut when it is too much. Never cuts one
itself, never reads the content.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol, TypeVar

COUNTED_BYTES = 8 * 1024
"""What holds less is not counted: even all connections together hold little of it."""


class Sender(Protocol):
    """A connection of a client.

    Attributes:
        caller: whose requests it carries.
    """

    caller: str

    @property
    def arriving(self) -> int:
        """Bytes of its requests that have arrived and are not processed yet."""
        ...


S = TypeVar("S", bound=Sender)


class _Counted(NamedTuple):
    caller: str
    size: int


class Arriving:
    """Counts unprocessed incoming bytes by connection and caller.

    Args:
        most: the most that all of them may hold, in bytes.

    Attributes:
        held: bytes held now.
    """

    def __init__(self, most: int) -> None:
        self.held = 0
        self._most = most
        self._counted: dict[Any, _Counted] = {}
        self._senders: dict[str, OrderedDict[Any, None]] = {}  # by caller, who began first first
        self._held_by: Counter[str] = Counter()

    def count(self, sender: Sender) -> None:
        """Update the count of a sender."""
        size, known = sender.arriving, self._counted.get(sender)
        if size <= COUNTED_BYTES:
            if known is not None:
                self.done(sender)
            return
        caller = sender.caller
        if known is not None and known.caller != caller:
            self.done(sender)
            known = None
        if known is None:
            self._senders.setdefault(caller, OrderedDict())[sender] = None
        more = size - (0 if known is None else known.size)
        self._counted[sender] = _Counted(caller, size)
        self._held_by[caller] += more
        self.held += more

    def done(self, sender: Sender) -> None:
        """The sender holds nothing any more, or is gone."""
        known = self._counted.pop(sender, None)
        if known is None:
            return
        self.held -= known.size
        senders = self._senders[known.caller]
        del senders[sender]
        self._held_by[known.caller] -= known.size
        if not senders:
            del self._senders[known.caller], self._held_by[known.caller]

    def count_again(self, sender: Sender) -> None:
        """Update the count of a sender whose request may have been answered without a report."""
        if sender in self._counted:
            self.count(sender)

    def too_much(self) -> Any | None:
        """The connection to close because there is too much, or None. A single connection is never
        closed.

        It belongs to the caller that holds most; of its connections, the one that began first.
        """
        if self.held <= self._most or len(self._counted) < 2:
            return None
        return next(iter(self._senders[max(self._held_by, key=self._held_by.__getitem__)]))


def first_of_largest_caller(senders: Collection[S], held: Callable[[S], int]) -> S:
    """The first connection of the caller that holds most."""
    callers: Counter[str] = Counter()
    for sender in senders:
        callers[sender.caller] += held(sender)
    most = callers.most_common(1)[0][0]
    return next(sender for sender in senders if sender.caller == most)
