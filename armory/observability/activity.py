"""The latest calls, listings and searches, in memory.

Owns: a bounded ring of them, and how many there were each minute of the last day. Keeps neither
arguments nor results. Never imports a transport, never writes anything.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from armory.domain.principal import Principal
from armory.domain.results import Listing
from armory.observability.operation import CURRENT

KEPT = 5_000
MINUTES = 1_440
_BYTES_PER_TOKEN = 4
_SAMPLE = 200
Kind = Literal["call", "listing", "search"]


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One thing that was answered.

    Attributes:
        seq: its number, from 1, without gaps.
        at_ms: when it was answered, milliseconds since 1970.
        kind: a call, a listing with a query, or a search by a meta-tool or over REST.
        owner: under whose name usage is kept.
        what: exposed name of the tool, or the texts of the query.
        ok: whether it went well.
        ms: how long it took.
        found: names that a query returned.
        visible: tools that the caller may see; 0 for calls.
        saved_tokens: estimate of what the listing spared; 0 for calls.
        degraded: what was lost, or None.
        trace: id of its trace, 32 hexadecimal digits; None: there is none.
    """

    seq: int
    at_ms: int
    kind: Kind
    owner: str
    what: str
    ok: bool
    ms: float
    found: tuple[str, ...] = ()
    visible: int = 0
    saved_tokens: int = 0
    degraded: str | None = None
    trace: str | None = None


@dataclass(slots=True)
class Minute:
    """What happened within one minute.

    Attributes:
        minute: minutes since 1970.
        calls, errors: tool calls, and those of them that failed.
        queries, empty: listings and searches, and those of them that returned nothing.
        saved_tokens: what they spared.
        ms: how long the calls took, a sample of at most 200.
    """

    minute: int
    calls: int = 0
    errors: int = 0
    queries: int = 0
    empty: int = 0
    saved_tokens: int = 0
    ms: list[float] = field(default_factory=list[float])

    def count_call(self, ok: bool, ms: float) -> None:
        """One call was answered."""
        self.calls += 1
        self.errors += not ok
        if len(self.ms) < _SAMPLE:
            self.ms.append(ms)

    def count_query(self, found: bool, saved_tokens: int) -> None:
        """One listing or search was answered."""
        self.queries += 1
        self.empty += not found
        self.saved_tokens += saved_tokens


class Activity:
    """`gateway.ports.ToolEvents` that remembers the latest.

    Args:
        redact: takes what must not be kept out of a query's text.
        now: seconds since 1970.
    """

    def __init__(
        self, redact: Callable[[str], str] = str, now: Callable[[], float] = time.time
    ) -> None:
        self._redact = redact
        self._now = now
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._minutes: deque[Minute] = deque(maxlen=MINUTES)
        self._seq = 0

    def called(
        self,
        principal: Principal,
        tool: str,
        *,
        ok: bool,
        latency_ms: float,
        query: str | None = None,
    ) -> None:
        """One call was answered."""
        now = self._now()
        self._seq += 1
        self._entries.append(
            Entry(
                self._seq,
                int(now * 1_000),
                "call",
                principal.owner,
                tool,
                ok,
                latency_ms,
                trace=_trace(),
            )
        )
        self._minute(now).count_call(ok, latency_ms)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """One listing or search was answered."""
        query = listing.query
        kind: Kind = "search" if query.source in ("tool", "rest") else "listing"
        saved = max(0, listing.visible_bytes - listing.returned_bytes) // _BYTES_PER_TOKEN
        now = self._now()
        self._seq += 1
        self._entries.append(
            Entry(
                self._seq,
                int(now * 1_000),
                kind,
                principal.owner,
                self._redact("\n".join(query.texts)),
                True,
                listing.latency_ms,
                listing.selected,
                listing.visible,
                saved,
                listing.degraded,
                _trace(),
            )
        )
        self._minute(now).count_query(bool(listing.selected), saved)

    @property
    def last(self) -> int:
        """Number of the latest entry, 0 before the first."""
        return self._seq

    def latest(self, *, after: int = 0) -> Iterator[Entry]:
        """The kept entries with a higher number than `after`, newest first."""
        for entry in reversed(self._entries):
            if entry.seq <= after:
                return
            yield entry

    def minutes(self) -> Iterator[Minute]:
        """The minutes of the last day in which anything happened, oldest first."""
        oldest = int(self._now() // 60) - MINUTES
        return (minute for minute in self._minutes if minute.minute > oldest)

    def minutes_of(self, fits: Callable[[Entry], bool]) -> list[Minute]:
        """The same of those kept entries that fit, which may reach back less."""
        found: list[Minute] = []
        for entry in self._entries:
            if not fits(entry):
                continue
            number = entry.at_ms // 60_000
            if not found or found[-1].minute != number:
                found.append(Minute(number))
            if entry.kind == "call":
                found[-1].count_call(entry.ok, entry.ms)
            else:
                found[-1].count_query(bool(entry.found), entry.saved_tokens)
        return found

    def _minute(self, now: float) -> Minute:
        number = int(now // 60)
        if not self._minutes or self._minutes[-1].minute != number:
            self._minutes.append(Minute(number))
        return self._minutes[-1]


def _trace() -> str | None:
    operation = CURRENT.get()
    return None if operation is None else operation.trace_id or None
