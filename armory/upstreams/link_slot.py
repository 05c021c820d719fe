"""Slots: the places that sessions with one upstream have, whether open or not.

Owns: `LinkSlot`: whose a session is, what it declares, its link; `LinkSlots`: all of them, by owner
and capability profile; `SessionCounts`: whose they are. Never imports the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from armory.errors import UpstreamOverloaded
from armory.protocol.link import Owner
from armory.protocol.session_events import SessionEvent
from armory.protocol.versions import Era
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec

NO_CAPABILITIES = "{}"
"""The profile of a client that declares nothing."""
_sorted = msgspec.json.Encoder(order="sorted")


class LinkSlot:
    """One session, open or not: observes its links.

    Attributes:
        owner: key of whose it is (`Placing.key`).
        whose: the same as an `Owner`, without what others share with it.
        capabilities: what it declares.
        legacy: whether it must be one with a handshake, as its client speaks.
        link: its link, which may be closed by now; None: it was never opened, or was lost.
        watched: the link that was asked to announce changes of lists.
        connecting: opens its link.
        in_flight: calls under way on it.
        last_used: seconds of the pool's clock.
        pinned: whether it is the gateway's own, which is never closed for being idle.
    """

    def __init__(
        self,
        owner: str,
        whose: Owner,
        capabilities: Mapping[str, Any],
        on_event: Callable[[LinkSlot, SessionEvent], None],
        *,
        legacy: bool = False,
    ) -> None:
        self.owner = owner
        self.whose = whose
        self.capabilities = capabilities
        self.legacy = legacy
        self.link: BaseLink | None = None
        self.watched: BaseLink | None = None
        self.connecting: asyncio.Task[BaseLink] | None = None
        self.in_flight = 0
        self.last_used = 0.0
        self.pinned = False
        self._on_event = on_event

    @property
    def alive(self) -> bool:
        """Whether its session is open or opening."""
        link = self.link
        return self.connecting is not None or (link is not None and not link.closed)

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`."""
        self._on_event(self, event)


class LinkSlots:
    """The slots of one upstream.

    Attributes:
        by_key: each by (owner, capability profile).
    """

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, str], LinkSlot] = {}

    def first_of(self, owner: str) -> LinkSlot | None:
        """A slot of that owner, whatever capabilities it declares."""
        return next((slot for (key, _), slot in self.by_key.items() if key == owner), None)

    def live_links(self, owner: str) -> list[BaseLink]:
        """The open links of that owner."""
        slots = (slot for (key, _), slot in self.by_key.items() if key == owner)
        return [slot.link for slot in slots if slot.link is not None and not slot.link.closed]

    def legacy_links(self, owner: str) -> list[BaseLink]:
        """The open links of that owner that have a handshake."""
        return [link for link in self.live_links(owner) if link.era == "legacy"]

    def announces_lists(self, owner: str) -> bool:
        """Whether an open link of that owner reports changes of lists."""
        slots = (slot for (key, _), slot in self.by_key.items() if key == owner)
        live = ((slot, slot.link) for slot in slots if slot.link is not None)
        return any(
            not link.closed and (link.era == "legacy" or slot.watched is link)
            for slot, link in live
        )

    def legacy_links_declaring(self, owner: str, capabilities: Mapping[str, Any]) -> list[BaseLink]:
        """The legacy link of `owner` that declares exactly these capabilities: one, or none."""
        slot = self.by_key.get((owner, capability_profile(capabilities)))
        link = None if slot is None else slot.link
        return [] if link is None or link.closed or link.era != "legacy" else [link]

    def forget(self, slot: LinkSlot) -> None:
        """Remove a slot."""
        for key in [key for key, other in self.by_key.items() if other is slot]:
            del self.by_key[key]

    def connected(self, slot: LinkSlot, link: BaseLink) -> None:
        """A link was opened. A modern one serves all clients of its owner, so its other slots go;
        one with a handshake serves only clients that declare the same capabilities.
        """
        text = NO_CAPABILITIES
        if link.era == "legacy" and slot.capabilities:
            text = capability_profile(slot.capabilities)
        if (slot.owner, text) not in self.by_key and slot in self.by_key.values():
            self.forget(slot)
            self.by_key[slot.owner, text] = slot

    def stale_links(self, era: Era | None) -> list[BaseLink]:
        """Links of another era than `era` that keep no session, and so would not notice that the
        upstream has changed; they are taken out of their slots.
        """
        stale: list[BaseLink] = []
        for slot in self.by_key.values():
            if slot.link is not None and slot.link.stateless and slot.link.era != era:
                stale.append(slot.link)
                slot.link = None
        return stale

    def to_give_up(
        self,
        owner: str,
        profiles: int | None,
        spec: UpstreamSpec,
        idle: Callable[[LinkSlot], bool],
    ) -> tuple[str, str] | None:
        """The key of the slot to evict for a new one of `owner`; None: there is room.

        Args:
            owner: who needs a slot.
            profiles: how many it may have; None: any number.
            spec: the upstream.
            idle: whether a slot can be given up.

        Raises:
            UpstreamOverloaded: no slot can be evicted.
        """
        slots = self.by_key
        mine = [key for key in slots if key[0] == owner]
        if profiles is not None and len(mine) >= profiles:
            keys, limit = mine, f"of one caller; the limit is {profiles}"
        elif len(slots) >= spec.max_sessions:
            keys, limit = list(slots), f"by now; the limit is max_sessions: {spec.max_sessions}"
        else:
            return None
        ages = [(slots[key].last_used, key) for key in keys if idle(slots[key])]
        if ages:
            return min(ages)[1]
        if all((link := slots[key].link) is not None and link.stateless for key in keys):
            return None  # they cost nothing
        raise UpstreamOverloaded(
            f"upstream {spec.key!r} has {len(keys)} sessions, all in use {limit}",
            upstream=spec.key,
            retry_after_s=1.0,
        )


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """The sessions of one upstream by who uses them, in the words of docs/sessions.md.

    Attributes:
        open: all of them, open or opening, the gateway's own included.
        own: clients that have a session of their own.
        shared: sessions that clients share.
        principals: principals whose clients share one; 0 where it is shared by all principals.
        stateless: whether the upstream keeps nothing between requests: a session costs nothing.
    """

    open: int
    own: int
    shared: int
    principals: int
    stateless: bool


def count_sessions(slots: Iterable[LinkSlot]) -> SessionCounts:
    """Count sessions by who uses them.

    The gateway's own, which is pinned, is neither shared nor a client's. A slot without a live
    session counts for nothing.
    """
    slots = [slot for slot in slots if slot.alive]
    own = {slot.owner for slot in slots if slot.whose.session_id is not None}
    shared = [slot for slot in slots if slot.whose.session_id is None and not slot.pinned]
    links = [slot.link for slot in slots if slot.link is not None]
    return SessionCounts(
        open=len(slots),
        own=len(own),
        shared=len(shared),
        principals=len({slot.owner for slot in shared if slot.owner}),
        stateless=bool(links) and all(link.stateless for link in links),
    )


def capability_profile(capabilities: Mapping[str, Any]) -> str:
    """Canonical text of a client's capabilities: equal capabilities, equal text."""
    return _sorted.encode(dict(capabilities)).decode()
