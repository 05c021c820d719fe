"""The sessions of one upstream: opening, sharing, evicting and closing them.

Owns: one connection attempt at a time for each slot, idle time-outs and the cap. Never imports the
pool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from armory.errors import UpstreamUnavailable
from armory.logger import Logger
from armory.protocol.link import Owner
from armory.protocol.session_events import Ended, Lost, Replaced, SessionEvent, SessionObserver
from armory.protocol.versions import Era
from armory.tasks import Tasks, being_cancelled, retrieve_failure, shielded
from armory.upstreams.clock import Clock
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.opening import Opener
from armory.upstreams.connecting.placing import OWN, Placing
from armory.upstreams.connecting.releases import Releases
from armory.upstreams.connecting.start_turns import StartTurns
from armory.upstreams.connecting.verdict import NoHandshake
from armory.upstreams.connecting.watched import Watched
from armory.upstreams.link_slot import (
    NO_CAPABILITIES,
    LinkSlot,
    LinkSlots,
    SessionCounts,
    capability_profile,
    count_sessions,
)
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec

log = Logger(__name__)

PROFILES_PER_OWNER = 8
"""Sessions of one caller: one for each set of capabilities that its clients declare."""


class LinkPool:
    """All sessions of one upstream.

    Args:
        spec: the upstream.
        connector: opens links.
        observer: gets the events of the sessions.
        clock: for idle times.
        turns: in which the processes of all upstreams start; those of single callers need none.
        on_gone: told the key of each session that is let go of.

    Attributes:
        placing: who shares a session with whom.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        connector: Connector,
        observer: SessionObserver,
        clock: Clock,
        turns: StartTurns,
        on_gone: Callable[[str], None] = lambda _key: None,
    ) -> None:
        self.spec = spec
        self.placing = Placing(spec, connector)
        self._observer = observer
        self._connector = connector
        self._clock = clock
        self._opener = Opener(spec, connector, turns)
        self._on_gone = on_gone
        self._slots = LinkSlots()
        self._watched = Watched(spec.key, self._link_of, self._slots.live_links, clock)
        self._releases = Releases()
        self._tasks = Tasks()
        self._closing = False
        self._era: Era | None = None

    def counts(self) -> SessionCounts:
        """How many sessions there are, by who uses them."""
        return count_sessions(self._slots.by_key.values())

    def slot(self, owner: Owner, capabilities: Mapping[str, Any]) -> LinkSlot:
        """The slot that serves `owner`, created if need be; its link may still have to be opened.

        Raises:
            UpstreamOverloaded: the cap is reached and every session is busy.
        """
        placing, verdict = self.placing, self._connector.verdict
        legacy = placing.legacy(owner)
        modern = verdict is not None and verdict.era == "modern" and not legacy
        text = NO_CAPABILITIES if modern or not capabilities else capability_profile(capabilities)
        key = (placing.key_of(owner, legacy=legacy), text)
        slot = self._slots.by_key.get(key)
        if slot is None:
            self._make_room(key[0])
            declared = {} if modern else dict(capabilities)
            whose = placing.session_owner(owner)
            slot = LinkSlot(key[0], whose, declared, self._on_slot_event, legacy=legacy)
            slot.last_used = self._clock.now()
            self._slots.by_key[key] = slot
        return slot

    async def opened(
        self, owner: Owner, capabilities: Mapping[str, Any]
    ) -> tuple[LinkSlot, BaseLink]:
        """The slot that serves `owner`, and its live link.

        Raises:
            UpstreamUnavailable: it could not be opened; `UpstreamOverloaded`: see `slot`.
        """
        slot = self.slot(owner, capabilities)
        try:
            return slot, await self.link(slot)
        except NoHandshake:  # known from now on
            slot = self.slot(owner, capabilities)
            return slot, await self.link(slot)

    async def link(self, slot: LinkSlot) -> BaseLink:
        """The slot's live link, opened if need be.

        Raises:
            NoHandshake: the slot is gone, since it must have a handshake and the upstream takes
                none; another one serves its owner.
            UpstreamUnavailable: it could not be opened.
        """
        link = slot.link
        if link is not None and not link.closed:
            return link
        if self._closing:
            raise self._gone()
        connecting = slot.connecting or self._begin(slot)
        try:
            return await shielded(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled() and not being_cancelled():
                raise self._gone("the session was closed while it was opened") from None
            raise
        finally:
            del connecting  # whose error holds this frame by its trace

    def _on_slot_event(self, slot: LinkSlot, event: SessionEvent) -> None:
        """Handle an event of a slot's session; a lost session is closed and forgotten."""
        if not isinstance(event, Lost):
            self._observer.on_session_event(event)
            return
        link, slot.link = slot.link, None
        if link is None:
            return
        log.warning("upstream_session_lost", upstream=self.spec.key, reason=event.reason)
        self.end(link)
        self._observer.on_session_event(event)
        if not slot.pinned and not self._closing:
            self._watched.lost(slot.owner)

    async def subscribe(self, owner: Owner, uris: frozenset[str], again: str | None = None) -> None:
        """Subscribe the sessions of `owner`, and those that open later, to exactly these resources:
        a client hears of what its own calls change, whichever session they use.

        Args:
            owner: whose sessions.
            uris: the resources.
            again: the one that another client subscribed to; upstreams with a handshake are told.

        Raises:
            Refused: the upstream said no.
            UpstreamUnavailable: it cannot be asked.
        """
        key = self.placing.key(owner)
        links = self._slots.live_links(key)
        if uris and not links:
            links, again = [await self._any_link(owner)], None
            key = self.placing.key(owner)  # how it is served is known now
        await self._watched.watch(key, uris, links, again)

    def release(self, session_id: str) -> None:
        """Close the sessions that belong to one client session alone."""
        for key, slot in tuple(self._slots.by_key.items()):
            if slot.whose.session_id == session_id:
                self._watched.drop(slot.owner)
                self._evict(key, slot)

    def reap(self, now: float) -> None:
        """Close sessions that have been idle for too long."""
        limit = self.spec.idle_timeout_s
        for key, slot in tuple(self._slots.by_key.items()):
            if self._idle(slot) and now - slot.last_used >= limit:
                self._evict(key, slot)

    async def close(self) -> None:
        """Close every session; leaves no task."""
        self._closing = True
        slots = tuple(self._slots.by_key.values())
        self._slots.by_key.clear()
        for slot in slots:
            self._close(slot)
        await self._watched.close()
        await self._tasks.ended()

    def stop_watching(self) -> None:
        """Stop watching resources: another `LinkPool` does from now on. Calls in flight still end
        here.
        """
        self._watched.forget()

    def end(self, link: BaseLink) -> None:
        """Close a session that belongs to no slot, in the background."""
        self._tasks.spawn(self._end(link), f"close {self.spec.key}")

    def announces(self, owner: Owner) -> bool:
        """Whether `owner` is served by an open session that reports changes of lists by itself."""
        key = self.placing.key(owner)
        return key != OWN and self._slots.announces_lists(key)

    def own_legacy_links(self, owner: Owner) -> list[BaseLink]:
        """The open legacy links that serve `owner`, unless everybody's does."""
        key = self.placing.key(owner)
        return [] if key == OWN else self._slots.legacy_links(key)

    def legacy_links_with_roots(
        self, owner: Owner, capabilities: Mapping[str, Any]
    ) -> list[BaseLink]:
        """The open legacy links that serve a client of `owner` which declared that it has roots."""
        if "roots" not in capabilities:
            return []
        return self._slots.legacy_links_declaring(self.placing.key(owner), capabilities)

    # ---

    def _gone(self, why: str = "it is being shut down or reconfigured") -> UpstreamUnavailable:
        return UpstreamUnavailable(f"upstream {self.spec.key!r}: {why}", upstream=self.spec.key)

    def _begin(self, slot: LinkSlot) -> asyncio.Task[BaseLink]:
        task = self._tasks.start(self._connect(slot), f"connect {self.spec.key}")
        task.add_done_callback(lambda ended: _connected(slot, ended))
        slot.connecting = task
        return task

    async def _connect(self, slot: LinkSlot) -> BaseLink:
        old, slot.link = slot.link, None
        if old is not None:
            await self._end(old)
        link = await self._new_link(slot)
        if self._closing:
            await self._end(link)
            raise self._gone()
        slot.link = link
        slot.last_used = self._clock.now()
        self._slots.connected(slot, link)
        verdict = self._connector.verdict
        before, self._era = self._era, None if verdict is None else verdict.era
        if before is not None and before != self._era:
            for stale in self._slots.stale_links(self._era):
                self.end(stale)
            self._replaced()
        if self.spec.is_stdio and not self.spec.templated:
            self._compare_releases(slot, link)
        await self._watched.tell(slot.owner, link)
        return link

    def _compare_releases(self, slot: LinkSlot, link: BaseLink) -> None:
        """Restart the gateway's own process where `link` leads to a newer release."""
        if slot.pinned:
            self._releases.own_started(link.server_info)
            return
        own = next((each for each in self._slots.by_key.values() if each.pinned), None)
        listing = None if own is None or own.in_flight else own.link
        if own is None or listing is None or listing.closed or listing.era != link.era:
            return
        if self._releases.outdated(listing.server_info, link.server_info):
            why = "another release of it starts by now"
            self._on_slot_event(own, Lost(self.spec.key, own.owner, why))

    def _replaced(self) -> None:
        """Another release of the upstream serves from now on: clients that watch resources may be
        served by another session and are subscribed again.
        """
        self._watched.forget()
        self._observer.on_session_event(Replaced(self.spec.key))

    async def _new_link(self, slot: LinkSlot) -> BaseLink:
        try:
            return await self._opener.open(slot)
        except NoHandshake:
            self._slots.forget(slot)
            if slot.owner in self._watched:
                self._replaced()
            raise

    def _idle(self, slot: LinkSlot) -> bool:
        return not (
            slot.in_flight
            or slot.pinned
            or slot.connecting is not None
            or slot.owner in self._watched
        )

    def _make_room(self, owner: str) -> None:
        profiles = None if owner == OWN else PROFILES_PER_OWNER
        key = self._slots.to_give_up(owner, profiles, self.spec, self._idle)
        if key is not None:
            self._evict(key, self._slots.by_key[key])

    def _evict(self, key: tuple[str, str], slot: LinkSlot) -> None:
        self._slots.by_key.pop(key, None)
        self._on_gone(slot.owner)
        if self._close(slot):
            log.info("upstream_session_closed", upstream=self.spec.key)

    def _close(self, slot: LinkSlot) -> bool:
        """Close the session of a slot, open or opening; returns whether it was open."""
        if slot.connecting is not None:
            slot.connecting.cancel()
        link, slot.link = slot.link, None
        if link is not None:
            self.end(link)
        return link is not None

    async def _end(self, link: BaseLink) -> None:
        await link.close()
        if link.era == "legacy":
            seconds = time.monotonic() - link.opened
            ended = Ended(self.spec.key, seconds, link.protocol_version, self.spec.is_stdio)
            self._observer.on_session_event(ended)

    async def _any_link(self, owner: Owner) -> BaseLink:
        """A link that serves `owner`, opened only where it has no session yet."""
        link = await self._link_of(self.placing.key(owner))
        return link or (await self.opened(owner, owner.capabilities))[1]

    async def _link_of(self, owner: str) -> BaseLink | None:
        """The link of an existing slot, opened if need be."""
        slot = self._slots.first_of(owner)
        if slot is not None:
            with suppress(NoHandshake):  # then a modern session serves the owner
                return await self.link(slot)
        return None


def _connected(slot: LinkSlot, ended: asyncio.Task[Any]) -> None:
    if slot.connecting is ended:
        slot.connecting = None
    retrieve_failure(ended)  # perhaps nobody waits any more
