"""Memory of large requests that upstreams have not answered, over all upstreams.

Owns: the sum, and who is refused where it is too much: one caller, or one upstream, has half of it,
so that calls of one who calls much, and at one that does not answer, leave room for all others.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from armory.domain.limits import Holdings
from armory.errors import UpstreamOverloaded
from armory.http1.reading import COUNTED_BYTES
from armory.protocol.link import Call, Owner


def size_of(call: Call) -> int:
    """Bytes of a call's parameters."""
    size = 0
    for value in call.params.values():  # at every call: a generator would take twice as long
        size += len(memoryview(value))
    return size


class Outflow:
    """Counts the bytes of unanswered requests to all upstreams.

    Args:
        limit_bytes: of all together; calls below `COUNTED_BYTES` are not counted.

    Attributes:
        held: bytes that are counted now.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._by_holder: Holdings[tuple[str, str]] = Holdings()
        self.held = 0

    @contextmanager
    def holding(self, server: str, owner: Owner, size: int) -> Generator[None]:
        """Count a call while it is in flight.

        Raises:
            UpstreamOverloaded: there is no room for it.
        """
        both = ("caller", owner.principal.person), ("upstream", server)
        for kind, name in both:
            if self._by_holder[kind, name] + size > self._limit // 2:
                whose = "this caller's" if kind == "caller" else f"those to {name!r}"
                raise self._full(server, f"{whose} alone hold half of that")
        if self.held + size > self._limit:
            raise self._full(server, "all together hold that")
        self.held += size
        for holder in both:
            self._by_holder.take(holder, size)
        try:
            yield
        finally:
            self.held -= size
            for holder in both:
                self._by_holder.give_back(holder, size)

    def _full(self, server: str, why: str) -> UpstreamOverloaded:
        return UpstreamOverloaded(
            f"large calls (of {COUNTED_BYTES:,} bytes and more) that are not answered yet may hold "
            f"{self._limit:,} bytes, see server.limits.outflow_bytes: {why}",
            upstream=server,
            retry_after_s=1.0,
        )
