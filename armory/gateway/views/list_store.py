"""The cache of upstream lists that single principals have.

Owns: what is kept of each, and the bounds on all of them: what was not used for longest is let go,
and fetched again. Never imports a transport.
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

ENTRIES = 1_000
OWN_BYTES = 32 << 20
"""Size of all lists that are not everybody's, as they came; as objects they take four times it."""
SETTLE_S, _RESTLESS_S, _IDLE_S = 0.05, 1.0, 2.0
"""How long announcements are collected: several tend to come together. Where they do not end, twice
as long each time, up to the second where the lists differ and to the third where they do not.
"""


@dataclass(slots=True)
class HeldLists:
    """The lists of one upstream as one owner has them.

    Attributes:
        server: the upstream.
        key: of the session that serves the owner (`Pool.key`).
        owner: whose they are.
        answers: what its client answers: an upstream may list by that, too.
        capabilities: what that client declared; None: what `owner` did.
        lists: None until they were fetched.
        until: when they are to be fetched again, by the monotonic clock; 0: now.
        own_bytes: size of those entries, as they came, that are not everybody's.
        same: whether they are what everybody is shown, as far as they were had.
        generation: another one for other lists.
        failed: why they could not be had when they were last asked for; "": they could.
        late: whether somebody was shown nothing in their place.
        outdated: whether their owner logged in or out since: they are not shown any more.
        task: fetches them.
        pauses: before they are fetched again because they are said to have changed.
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
        self._held: OrderedDict[tuple[str, str, int], HeldLists] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldLists]:
        return iter(tuple(self._held.values()))

    def entry(self, server: str, key: str, owner: Owner, answers: int) -> HeldLists:
        """The entry of an owner whose client answers these questions, created if need be; counts as
        a use.
        """
        held = self._held.get((server, key, answers))
        if held is None:
            while len(self._held) >= ENTRIES:
                self.drop(next(iter(self._held.values())))
            held = self._held[server, key, answers] = HeldLists(server, key, owner, answers)
        self._held.move_to_end((server, key, answers))
        return held

    def move(self, held: HeldLists, key: str) -> None:
        """Move an entry to the key of the session that turned out to serve its owner."""
        place = (held.server, held.key, held.answers)
        if key != held.key and self._held.get(place) is held:
            del self._held[place]
            held.key = key
            self._held.setdefault((held.server, key, held.answers), held)

    def drop(self, held: HeldLists) -> None:
        """Delete an entry, and cancel its fetch."""
        del self._held[held.server, held.key, held.answers]
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

    def trim(self, taken: HeldLists | None = None) -> None:
        """Evict the least recently used entries down to `OWN_BYTES`, but not `taken`.

        Lists that several entries share count once; entries that are being fetched stay.
        """
        total = sum({id(held.lists): held.own_bytes for held in self._held.values()}.values())
        holders = Counter(id(held.lists) for held in self._held.values())
        for held in tuple(self._held.values()):
            if total <= OWN_BYTES:
                return
            fetching = held.task is not None and not held.task.done()
            if held is not taken and held.own_bytes and not fetching:
                holders[id(held.lists)] -= 1
                total -= 0 if holders[id(held.lists)] else held.own_bytes
                self.drop(held)
