"""The event streams that are open right now, counted against their cap and ended together.

Owns: `OpenStreams`. Never imports a web framework.
"""

from __future__ import annotations

from armory.wire.listening import Listening
from armory.wire.streams import EventStream


class OpenStreams:
    """Open event streams of one edge.

    Args:
        capacity: most streams at once.

    Attributes:
        closing: whether the edge is about to end: no stream is opened any more.
        listening: what is open of `subscriptions/listen`.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._count = 0
        self.listening: set[Listening] = set()
        self._pipes: set[EventStream] = set()
        self.closing = False

    def __len__(self) -> int:
        return self._count

    def take(self) -> bool:
        """Count one more; False when there are too many, or the edge closes."""
        if self.closing or self._count >= self._capacity:
            return False
        self._count += 1
        return True

    def give_back(self) -> None:
        """Count one less."""
        self._count -= 1

    def add_listening(self, listening: Listening) -> None:
        """A `subscriptions/listen` was opened."""
        self.listening.add(listening)

    def drop_listening(self, listening: Listening) -> None:
        """It has ended."""
        self.listening.discard(listening)

    def add_pipe(self, pipe: EventStream) -> None:
        """An HTTP+SSE connection was opened."""
        self._pipes.add(pipe)

    def drop_pipe(self, pipe: EventStream) -> None:
        """It has ended."""
        self._pipes.discard(pipe)

    def end_principal(self, key: str) -> None:
        """End the listening streams of one principal."""
        for listening in list(self.listening):
            if listening.principal == key:
                listening.stream.close()

    def end_all(self) -> None:
        """End every stream, and open none from now on."""
        self.closing = True
        for listening in list(self.listening):
            listening.stream.close()
        for pipe in list(self._pipes):
            pipe.close()
