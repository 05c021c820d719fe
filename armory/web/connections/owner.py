"""The events that a connection reports.

Owns: `Owner`. Never knows who it is.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, TypeVar

from armory.web.connections.endings import Endings
from armory.web.connections.pacing import Pace

C = TypeVar("C", contravariant=True)


class Owner(Protocol[C]):
    """Receives the events of its connections (`Connections`)."""

    loop: asyncio.AbstractEventLoop
    late_s: float
    endings: Endings
    pace: Pace

    def made(self, connection: C) -> None:
        """The connection was accepted."""
        ...

    def lost(self, connection: C) -> None:
        """The connection has ended."""
        ...

    def arrives(self, connection: C) -> None:
        """More of its requests has arrived."""
        ...

    def heads(self, connection: C) -> None:
        """More of a header has arrived that is incomplete."""
        ...

    def understood(self, connection: C) -> None:
        """The body of its request need not be held any more."""
        ...

    def stalls(self, connection: C) -> None:
        """The client stopped reading its answer."""
        ...

    def holds(self, connection: C) -> None:
        """The number of bytes that wait for a client which does not read has changed."""
        ...

    def reads(self, connection: C) -> None:
        """The client reads its answer again."""
        ...

    def note(self, event: str, **what: Any) -> None:
        """Write a log line, at most one a minute of each kind."""
        ...
