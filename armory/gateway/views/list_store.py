"""The cache of upstream lists that single principals have.

Owns: the entries, and their limits: the least recently used ones are dropped, and fetched again
when they are needed. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from armory.domain.catalog import ServerLists
from armory.protocol.link import Owner
from armory.tasks import Pauses
from armory.threads import let_go

ENTRIES = 10_000
"""Most entries, whatever their size: one with the shared lists takes 2 KiB."""
OWN_BYTES = 32 << 20
"""Largest size, as they came, of all entries that are not shared; as objects they take four times
as much."""
_LEFT = 0.875
"""Share of `OWN_BYTES` that is left after trimming: adding all sizes up takes milliseconds."""
_Place = tuple[str, str, int]
SETTLE_S, _RESTLESS_S, _IDLE_S = 0.05, 1.0, 2.0
"""How long announcements of changes are collected, since several tend to come together: twice as
long each time while they go on, up to the second value if the lists differed and the third if not.
"""


@dataclass(slots=True)
class HeldLists:
    """The lists of one upstream as one owner has them.

    Attributes:
        server: the upstream.
        key: the key of the session that serves the owner (`Pool.key`).
        owner: the principal, or the client, that sees them.
        answers: the questions that its client answers (`protocol.capabilities`): the lists of an
            upstream may depend on them.
        capabilities: those that the client declared; None: those of `owner`.
        lists: the lists; None until they were fetched.
        until: when they are fetched again, by the monotonic clock; 0: now.
        own_bytes: size, as they came, of the entries that are not shared with everybody.
        same: whether the lists that were fetched equal the shared ones.
        generation: a number that changes with the lists.
        failed: why the latest attempt to fetch them failed; "": it did not.
        late: whether a request was answered without them, because they were not there yet.
        outdated: whether their owner has logged in or out since; then they are no longer shown.
        task: the fetch under way.
        pauses: how long to wait before they are fetched again after an announced change.
    """

    server: str
    key: str
    owner: Owner
    answers: int = 0
    capabilities: Mapping[str, Any] | None = None
    lists: ServerLists | None = None
    until: float = 0.0
    own_bytes: int = 0
    same: bool = True
    generation: int = 0
    failed: str = ""
    late: bool = False
    outdated: bool = False
    task: asyncio.Task[None] | None = None
    pauses: Pauses = field(default_factory=lambda: Pauses(SETTLE_S, _IDLE_S, _RESTLESS_S))


class ListStore:
    """All cached lists, in the order of their last use."""

    def __init__(self) -> None:
        self._held: OrderedDict[_Place, HeldLists] = OrderedDict()
        self._by_key: dict[tuple[str, str], dict[int, HeldLists]] = {}
        self._by_client: dict[str, dict[_Place, None]] = {}
        self._bytes = 0  # an upper bound of all own_bytes

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldLists]:
        return iter(tuple(self._held.values()))

    def of(self, server: str, key: str) -> list[HeldLists]:
        """The entries of one session of an upstream."""
        return list(self._by_key.get((server, key), {}).values())

    def entry(self, server: str, key: str, owner: Owner, answers: int) -> HeldLists:
        """The entry of an owner whose client answers these questions, created if need be; counts as
        a use.
        """
        held = self._held.get((server, key, answers))
        if held is None:
            while len(self._held) >= ENTRIES:
                self.drop(next(iter(self._held.values())))
            held = HeldLists(server, key, owner, answers)
            self._put(held)
        self._held.move_to_end((server, key, answers))
        return held

    def set_owner(self, held: HeldLists, owner: Owner) -> None:
        """Record the owner as its latest request shows it: the client may be another one."""
        held.owner = owner
        self._note_client(held)

    def move(self, held: HeldLists, key: str) -> None:
        """Move an entry to the key of the session that turned out to serve its owner."""
        if key != held.key and self._held.get(_place(held)) is held:
            self._take_out(held)
            held.key = key
            if _place(held) not in self._held:
                self._put(held)

    def release_client(self, session_id: str) -> list[HeldLists]:
        """Forget the client of an ended legacy session; returns the entries that it used last."""
        places = self._by_client.pop(session_id, {})
        found = [held for place in places if (held := self._held.get(place)) is not None]
        return [held for held in found if held.owner.session_id == session_id]

    def _put(self, held: HeldLists) -> None:
        self._held[_place(held)] = held
        self._by_key.setdefault((held.server, held.key), {})[held.answers] = held
        self._note_client(held)

    def _note_client(self, held: HeldLists) -> None:
        client = held.owner.session_id
        if client is not None:
            self._by_client.setdefault(client, {})[_place(held)] = None

    def _take_out(self, held: HeldLists) -> None:
        del self._held[_place(held)]
        alike = self._by_key[held.server, held.key]
        del alike[held.answers]
        if not alike:
            del self._by_key[held.server, held.key]
        of_client = self._by_client.get(held.owner.session_id or "", {})
        of_client.pop(_place(held), None)

    def drop(self, held: HeldLists) -> None:
        """Delete an entry, and cancel its fetch."""
        self._take_out(held)
        if held.task is not None:
            held.task.cancel()
        lists, held.lists = held.lists, None
        if lists is not None and held.own_bytes:
            entries = list(chain(*lists.sequences()))
            del lists
            let_go(entries)

    def clear(self) -> None:
        """Delete all entries."""
        self._held.clear()
        self._by_key.clear()
        self._by_client.clear()

    def trim(self, taken: HeldLists | None = None) -> None:
        """Drop the least recently used entries if all together exceed `OWN_BYTES`.

        Lists that several entries share count once; entries that are being fetched stay.

        Args:
            taken: the only entry whose lists have changed, which stays; None: any may have.
        """
        if taken is not None:
            self._bytes += taken.own_bytes
            if self._bytes <= OWN_BYTES:
                return
        self._bytes = self._trimmed(taken)

    def _trimmed(self, taken: HeldLists | None) -> int:
        total = sum({id(held.lists): held.own_bytes for held in self._held.values()}.values())
        holders = Counter(id(held.lists) for held in self._held.values())
        if total <= OWN_BYTES:
            return total
        for held in tuple(self._held.values()):
            if total <= _LEFT * OWN_BYTES:
                break
            fetching = held.task is not None and not held.task.done()
            if held is not taken and held.own_bytes and not fetching:
                holders[id(held.lists)] -= 1
                total -= 0 if holders[id(held.lists)] else held.own_bytes
                self.drop(held)
        return total


def _place(held: HeldLists) -> _Place:
    return held.server, held.key, held.answers
