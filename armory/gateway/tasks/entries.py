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
        kept: entries at most; of the person with the most the least recently entered goes.
        clock: seconds, monotonic.
    """

    def __init__(self, kept: int, clock: Callable[[], float]) -> None:
        super().__init__(kept, ttu=lambda _key, entry, now: now + entry.ttl_s, timer=clock)
        self._by_person: Holdings[str] = Holdings()
        self._keys: dict[str, dict[str, None]] = {}  # of each person, latest last

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
            self._forget(key, before)
        self._by_person.take(value.counted)
        self._keys.setdefault(value.counted, {})[key] = None

    def popitem(self) -> tuple[str, Entry]:
        """Delete the least recently entered one of the person who has most: others keep theirs."""
        self.expire()
        if not self._by_person:
            return super().popitem()
        most = max(self._by_person, key=self._by_person.__getitem__)
        key = next(iter(self._keys[most]))
        return key, self.pop(key)

    def __delitem__(self, key: str) -> None:
        """Delete an entry."""
        with self.timer:
            entry = self.get(key)
            super().__delitem__(key)
        if entry is not None:
            self._forget(key, entry)

    def expire(self, time: float | None = None) -> list[tuple[str, Entry]]:
        """Delete expired entries and return them."""
        gone = list(super().expire(time))
        for key, entry in gone:
            self._forget(key, entry)
        return gone

    def _forget(self, key: str, entry: Entry) -> None:
        person = entry.counted
        self._by_person.give_back(person)
        del self._keys[person][key]
        if person not in self._by_person:
            del self._keys[person]
