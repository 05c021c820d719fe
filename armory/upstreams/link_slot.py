"""One session with an upstream, open or not.

Owns: `LinkSlot`: whose it is, what it declares, its link; capability profiles; `SessionCounts`:
whose all of them are. Never imports the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from armory.protocol.link import Owner
from armory.protocol.session_events import SessionEvent
from armory.upstreams.session.base import BaseLink

NO_CAPABILITIES = "{}"
"""The profile of a client that declares nothing."""
_sorted = msgspec.json.Encoder(order="sorted")


class LinkSlot:
    """One session, open or not: observes its links.

    Attributes:
        legacy: whether it must be one with a handshake, as its client speaks.
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
    def there(self) -> bool:
        """Whether its session is open or opening."""
        link = self.link
        return self.connecting is not None or (link is not None and not link.closed)

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`."""
        self._on_event(self, event)


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Whose the sessions of one upstream are, in the words of docs/sessions.md.

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
    """Whose `slots` are; the gateway's own, which is pinned, is neither shared nor a client's. One
    whose session is lost, or could not be opened, waits for a call and counts for nothing.
    """
    slots = [slot for slot in slots if slot.there]
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
