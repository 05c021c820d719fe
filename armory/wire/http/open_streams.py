"""The open event streams: counted against their limits, and ended together.

Owns: `OpenStreams`. Never imports a web framework.
"""

from __future__ import annotations

from collections.abc import Callable

from armory.domain.limits import Holdings
from armory.domain.principal import Principal
from armory.wire.listening import ClientListening
from armory.wire.streams import EventStream


class OpenStreams:
    """Open event streams of one edge.

    Args:
        capacity: most streams at once.
        per_principal: the same for one principal.

    Attributes:
        closing: whether the edge is about to end: no stream is opened any more.
        listening: what is open of `subscriptions/listen`.
        refused: how many were one too many.
    """

    def __init__(self, capacity: int, per_principal: int) -> None:
        self._capacity = capacity
        self._per_principal = per_principal
        self._count = 0
        self._by_person: Holdings[str] = Holdings()
        self.listening: set[ClientListening] = set()
        self._pipes: dict[EventStream, Principal] = {}
        self.closing = False
        self.refused = 0

    def __len__(self) -> int:
        return self._count

    def take(self, key: str) -> str:
        """Count one more stream of a principal.

        Returns:
            "", or why it may not have one: there are too many, or the edge closes.
        """
        if self.closing:
            return "the gateway stops; open the stream again in a while"
        if self._count >= self._capacity:
            self.refused += 1
            return "too many streams are open (server.limits.streams); try again later"
        if self._by_person[key] >= self._per_principal:
            self.refused += 1
            return (
                f"{self._per_principal} streams of yours are open "
                "(server.limits.streams_per_principal); try again later"
            )
        self._count += 1
        self._by_person.take(key)
        return ""

    def give_back(self, key: str) -> None:
        """Release one stream of `key`."""
        self._count -= 1
        self._by_person.give_back(key)

    def add_listening(self, listening: ClientListening) -> None:
        """Register an open `subscriptions/listen`; ended at once if the edge is closing."""
        self.listening.add(listening)
        if self.closing:
            listening.stream.close()

    def drop_listening(self, listening: ClientListening) -> None:
        """Unregister a `subscriptions/listen`."""
        self.listening.discard(listening)

    def add_pipe(self, pipe: EventStream, principal: Principal) -> None:
        """Register an HTTP+SSE connection of a principal."""
        self._pipes[pipe] = principal

    def drop_pipe(self, pipe: EventStream) -> None:
        """Unregister an HTTP+SSE connection."""
        self._pipes.pop(pipe, None)

    def end_those(self, whose: Callable[[Principal], bool]) -> None:
        """End the listening streams and HTTP+SSE connections of some principals."""
        for listening in list(self.listening):
            if whose(listening.subscription.principal):
                listening.stream.close()
        for pipe, owner in list(self._pipes.items()):
            if whose(owner):
                pipe.close()

    def end_all(self) -> None:
        """End all listening streams, and refuse new ones; `SseFront` ends HTTP+SSE connections."""
        self.closing = True
        for listening in list(self.listening):
            listening.stream.close()
