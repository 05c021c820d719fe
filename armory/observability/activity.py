"""The latest calls, listings and searches, in memory.

Owns: a bounded ring buffer of them, and what is kept of their arguments and results: nothing,
unless that is enabled. Never imports a transport, never writes anything.
"""

from __future__ import annotations

import secrets
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import msgspec

from armory.domain.principal import Principal
from armory.domain.results import BYTES_PER_TOKEN, CallOutcome, Exchanged, Listing
from armory.observability.history import DAY_S, MINUTE_S, Minutes, Parts, Tally
from armory.observability.operation import CURRENT
from armory.observability.redaction import redacted, redacted_json, redacted_value
from armory.observability.settings import ActivitySettings

KEPT = 5_000
KEPT_BYTES = 32 << 20
"""Memory that their texts take at most: a query may have 8,000 characters, and find 200 tools."""
CONTENTS = 2_000
"""Characters of arguments and of a result that are kept."""
_AT_ONCE = 64
Kind = Literal["call", "listing", "search"]


class Contents(NamedTuple):
    """The arguments and the result of a call, as text with secrets hidden; None: not kept."""

    arguments: str | None
    result: str | None


_Call = tuple[float, str, str, bool | None, float, str | None, Contents | None]
"""When, whose, which tool, whether it went well, milliseconds, trace, what was said."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One call, listing or search.

    Attributes:
        seq: its number; higher ones are later.
        at_ms: when it was answered, milliseconds since 1970.
        kind: a call, a listing with a query, or a search by a meta-tool or over REST.
        owner: under whose name usage is kept.
        what: exposed name of the tool, or the texts of the query.
        ok: whether it went well; None: it was cancelled.
        ms: how long it took.
        found: names that a query returned.
        visible: tools that the caller may see; 0 for calls.
        saved_tokens: estimate of what the listing spared; 0 for calls.
        degraded: what was lost, or None.
        trace: id of its trace, 32 hexadecimal digits; None: there is none.
        contents: arguments and result of a call; None: they are not kept.
    """

    seq: int
    at_ms: int
    kind: Kind
    owner: str
    what: str
    ok: bool | None
    ms: float
    found: tuple[str, ...] = ()
    visible: int = 0
    saved_tokens: int = 0
    degraded: str | None = None
    trace: str | None = None
    contents: Contents | None = None


class Activity:
    """Keeps the latest entries; satisfies `gateway.ports.ToolEvents`.

    Args:
        redact: takes what must not be kept out of a text.
        settings: what is kept of calls.
        now: seconds since 1970.

    Attributes:
        process: names the one that these are of, no other replica's and none's before it.
    """

    def __init__(
        self,
        redact: Callable[[str], str] = str,
        settings: ActivitySettings | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.process = secrets.token_hex(8)
        self._redact = redact
        self._now = now
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._settings = settings or ActivitySettings()
        self._minutes, self._parts = Minutes(), Parts()
        self._waiting: list[_Call] = []
        self._began = now()
        # Higher than any of a process before this one: whoever asks for later ones gets them all.
        self._seq = int(self._began * 1_000_000)

    def called(self, principal: Principal, call: CallOutcome) -> None:
        """Record one call."""
        contents = None if call.exchanged is None else self._contents(call.exchanged)
        who, tool, ok, ms = principal.owner, call.tool, call.ok, call.latency_ms
        self._waiting.append((self._now(), who, tool, ok, ms, _trace(), contents))
        if len(self._waiting) >= _AT_ONCE:
            self._take_in()

    def _take_in(self) -> None:
        """Process the pending calls, those of the same caller, tool and minute together, which
        costs less.
        """
        waiting, self._waiting = self._waiting, []
        alike: dict[tuple[str, str, int], list[float]] = defaultdict(list)
        failed: Counter[tuple[str, str, int]] = Counter()
        seq = self._seq
        for now, owner, tool, ok, ms, trace, contents in waiting:
            seq += 1
            at_ms = int(now * 1_000)
            entry = Entry(seq, at_ms, "call", owner, tool, ok, ms, trace=trace, contents=contents)
            self._entries.append(entry)
            if contents is not None:
                self._bytes += _size(entry)
            group = (owner, tool, int(now) // MINUTE_S)
            alike[group].append(ms)
            if ok is False:
                failed[group] += 1
        self._seq = seq
        self._forget()
        for group, times in alike.items():
            owner, tool, minute = group
            self._minutes.calls(minute * MINUTE_S, failed[group], times)
            self._parts.calls(minute * MINUTE_S, owner, tool, failed[group], times)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """Record one query; a listing without a query is not kept."""
        query = listing.query
        if query is None:
            return
        kind: Kind = "search" if query.source in ("tool", "agent", "rest") else "listing"
        saved = max(0, listing.visible_bytes - listing.returned_bytes) // BYTES_PER_TOKEN
        now = self._now()
        self._take_in()
        self._seq += 1
        entry = Entry(
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
        self._entries.append(entry)
        self._bytes += _size(entry)
        self._forget()
        found = bool(listing.selected)
        self._minutes.query(now, found, saved)
        self._parts.query(now, principal.owner, found, saved)

    def _forget(self) -> None:
        """Drop the oldest entries beyond the bound."""
        entries = self._entries
        while len(entries) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= _size(entries.popleft())

    @property
    def keeps_contents(self) -> bool:
        """Whether arguments or results of calls are kept."""
        return self._settings.arguments or self._settings.results

    @property
    def last(self) -> int:
        """Number of the latest entry; before the first, a lower number."""
        return self._seq + len(self._waiting)

    def latest(self, *, after: int = 0) -> Iterator[Entry]:
        """The kept entries with a higher number than `after`, newest first."""
        self._take_in()
        for entry in reversed(self._entries):
            if entry.seq <= after:
                return
            yield entry

    def contents(self, seq: int) -> tuple[str, Contents] | None:
        """The owner and the contents of the entry with this number; None: not kept."""
        self._take_in()
        place = bisect_left(self._entries, seq, key=lambda entry: entry.seq)
        entry = self._entries[place] if place < len(self._entries) else None
        if entry is None or entry.seq != seq or entry.contents is None:
            return None
        return entry.owner, entry.contents

    async def forget(self, user: str) -> None:
        """Forget a deleted user's entries: a later user of that name is somebody else."""
        self._take_in()
        self._entries = deque(entry for entry in self._entries if entry.owner != user)
        self._bytes = sum(map(_size, self._entries))
        self._parts.forget(user)

    @property
    def since(self) -> float:
        """The time from which the counts are complete: seconds since 1970, at most a day ago."""
        return max(self._began, self._now() - DAY_S)

    def minutes(self) -> Iterator[tuple[int, Tally]]:
        """(seconds since 1970, tally) of each minute since then, oldest first."""
        self._take_in()
        return self._minutes.since(self.since - MINUTE_S)

    def parts(self, fits: Callable[[str, str], bool]) -> tuple[float, list[tuple[int, Tally]]]:
        """(time from which it is complete, tallies of five minutes each) of the callers and tools
        that match; queries have an empty tool.
        """
        self._take_in()
        since = max(self.since, self._parts.whole_from)
        return since, self._parts.since(since, fits)

    def callers(self) -> list[str]:
        """Everybody who called or queried anything in that time."""
        self._take_in()
        return sorted(self._parts.callers())

    def _contents(self, exchanged: Exchanged) -> Contents:
        kept = self._settings
        return Contents(
            _shown(exchanged.arguments, self._redact) if kept.arguments else None,
            _shown(exchanged.result, self._redact) if kept.results else None,
        )


def _size(entry: Entry) -> int:
    """Bytes that callers caused; entries without contents count as nothing."""
    if entry.kind == "call":
        return 0 if entry.contents is None else sum(map(sys.getsizeof, entry.contents))
    return sys.getsizeof(entry.what) + sum(map(sys.getsizeof, entry.found))


def _shown(data: bytes | None, redact: Callable[[str], str]) -> str | None:
    """JSON with secrets hidden, truncated to a readable length; truncated text is not
    valid JSON.
    """
    if data is None:
        return None
    try:
        value = redacted_value("", msgspec.json.decode(data))
        text = redacted(msgspec.json.encode(value).decode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        text = redacted_json(data.decode("utf-8", "replace"))
    text = redact(text)
    return text if len(text) <= CONTENTS else f"{text[:CONTENTS]}…"


def _trace() -> str | None:
    operation = CURRENT.get()
    return None if operation is None else operation.trace_id or None
