"""Events of calls and listings for several listeners.

Owns: telling each in turn. Never keeps anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from armory.domain.principal import Principal
from armory.domain.results import Exchanged, Listing
from armory.gateway.ports import ToolEvents


class EventFanOut:
    """`gateway.ports.ToolEvents` for several listeners."""

    def __init__(self, listeners: Sequence[ToolEvents]) -> None:
        self._listeners = tuple(listeners)
        self._called = tuple(listener.called for listener in listeners)

    def called(
        self,
        principal: Principal,
        tool: str,
        *,
        ok: bool | None,
        latency_ms: float,
        query: str | None = None,
        exchanged: Exchanged | None = None,
    ) -> None:
        """One `tools/call` was answered."""
        for told in self._called:
            told(principal, tool, ok=ok, latency_ms=latency_ms, query=query, exchanged=exchanged)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """A query was answered, or a `tools/list` was cut without one."""
        for listener in self._listeners:
            listener.listed(principal, listing)
