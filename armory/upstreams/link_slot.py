"""One session with an upstream, open or not.

Owns: `LinkSlot`: whose it is, what it declares, its link. Never imports the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from armory.protocol.link import Owner
from armory.protocol.session_events import SessionEvent
from armory.upstreams.session.base import BaseLink


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

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`."""
        self._on_event(self, event)
