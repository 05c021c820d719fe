"""The tasks in memory, and their number for each person.

Owns: `Entry` and `Entries`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cachetools import TLRUCache

from armory.domain.limits import Holdings


class Entry(NamedTuple):
    """One task and its maker.

    Attributes:
        maker: key of the principal.
        ttl_s: time to live, in seconds.
        at_s: when that was written.
        person: as whose it counts (`Principal.person`); empty: as the maker's, of which no more is
            known where another replica entered it.
    """

    maker: str
    ttl_s: float
    at_s: float
    person: str = ""

    @property
    def counted(self) -> str:
        """The person whose quota it counts against."""
        return self.person or self.maker


class Entries(TLRUCache[str, Entry]):
    """Entries by the key of their place, each until it expires.

    Args:
        kept: entries at most; the least recently used go first.
        clock: seconds, monotonic.
    """

    def __init__(self, kept: int, clock: Callable[[], float]) -> None:
        super().__init__(kept, ttu=lambda _key, entry, now: now + entry.ttl_s, timer=clock)
        self._by_person: Holdings[str] = Holdings()

    def count(self, person: str) -> int:
        """The number of a person's tasks that have not expired."""
        self.expire()
        return self._by_person[person]

    def __setitem__(self, key: str, value: Entry) -> None:
        """Set an entry, whatever was there."""
        with self.timer:  # one time for all of it
            before = self.get(key)
            super().__setitem__(key, value)
        if before is not None:
            self._forget(before)
        self._by_person.take(value.counted)

    def __delitem__(self, key: str) -> None:
        """Delete an entry; `popitem` does so with the least recently used."""
        with self.timer:
            entry = self.get(key)
            super().__delitem__(key)
        if entry is not None:
            self._forget(entry)

    def expire(self, time: float | None = None) -> list[tuple[str, Entry]]:
        """Delete expired entries and return them."""
        gone = list(super().expire(time))
        for _, entry in gone:
            self._forget(entry)
        return gone

    def _forget(self, entry: Entry) -> None:
        self._by_person.give_back(entry.counted)
