"""Fans events of calls and listings out to several listeners.

Owns: telling each in turn. Never keeps anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from armory.domain.principal import Principal
from armory.domain.results import CallOutcome, Listing
from armory.gateway.ports import ToolEvents


class EventFanOut:
    """`gateway.ports.ToolEvents` for several listeners."""

    def __init__(self, listeners: Sequence[ToolEvents]) -> None:
        self._listeners = tuple(listeners)

    def called(self, principal: Principal, call: CallOutcome) -> None:
        """One `tools/call` was answered."""
        for listener in self._listeners:
            listener.called(principal, call)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """A query was answered, or a `tools/list` was cut without one."""
        for listener in self._listeners:
            listener.listed(principal, listing)
