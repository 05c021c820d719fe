"""Tallies of calls and queries over the last day: in total, and for every caller and tool.

Owns: `Tally`, `Minutes` and `Parts`. Never imports anything of Armory.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

DAY_S = 86_400
MINUTE_S = 60
PART_S = 300
MOST_PARTS = 100_000
"""Tallies of one caller and tool that are kept; beyond it the oldest five minutes are dropped."""
_OF_ALL, _OF_A_PART = 200, 32


def _no_times() -> array[float]:
    return array("f")


class Tally(msgspec.Struct, gc=False):
    """The counts of a span of time.

    Attributes:
        calls, errors: tool calls, and those of them that failed.
        queries, empty: listings and searches, and those of them that returned nothing.
        saved_tokens: what they spared.
        ms: how long the calls took, a sample.
    """

    calls: int = 0
    errors: int = 0
    queries: int = 0
    empty: int = 0
    saved_tokens: int = 0
    ms: array[float] = msgspec.field(default_factory=_no_times)

    def count_calls(self, errors: int, times: Sequence[float], sample: int) -> None:
        """Count calls, some of them failed; the latest `sample` durations are kept."""
        calls, free = self.calls + len(times), sample - len(self.ms)
        self.ms.extend(times[:free])
        late = times[free:][-sample:]
        for place, ms in enumerate(late, calls - len(late)):
            self.ms[place % sample] = ms
        self.calls = calls
        self.errors += errors

    def count_query(self, found: bool, saved_tokens: int) -> None:
        """Count one listing or search."""
        self.queries += 1
        self.empty += not found
        self.saved_tokens += saved_tokens

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.calls += other.calls
        self.errors += other.errors
        self.queries += other.queries
        self.empty += other.empty
        self.saved_tokens += other.saved_tokens
        self.ms.extend(other.ms)


class Minutes:
    """The tallies of the last day, one a minute."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Tally]] = deque(maxlen=DAY_S // MINUTE_S)

    def calls(self, now: float, errors: int, times: Sequence[float]) -> None:
        """Count calls; `now` in seconds since 1970, as everywhere here."""
        self._tally_at(now).count_calls(errors, times, _OF_ALL)

    def query(self, now: float, found: bool, saved_tokens: int) -> None:
        """Count one listing or search."""
        self._tally_at(now).count_query(found, saved_tokens)

    def since(self, oldest: float) -> Iterator[tuple[int, Tally]]:
        """(start, tally) of each minute that has any, oldest first."""
        return ((at, tally) for at, tally in self._kept if at > oldest)

    def _tally_at(self, now: float) -> Tally:
        began = int(now // MINUTE_S) * MINUTE_S
        if not self._kept or self._kept[-1][0] != began:
            self._kept.append((began, Tally()))
        return self._kept[-1][1]


class Parts:
    """A tally for every caller and tool, in spans of five minutes.

    Args:
        most: how many tallies are kept.

    Attributes:
        whole_from: what happened before this is not all there, in seconds since 1970.
    """

    def __init__(self, most: int = MOST_PARTS) -> None:
        self._kept: deque[tuple[int, dict[tuple[str, str], Tally]]] = deque()
        self._count = 0
        self._most = most
        self.whole_from = 0.0

    def calls(self, now: float, who: str, tool: str, errors: int, times: Sequence[float]) -> None:
        """Count calls of one tool."""
        self._tally_at(now, (who, tool)).count_calls(errors, times, _OF_A_PART)

    def query(self, now: float, who: str, found: bool, saved_tokens: int) -> None:
        """Count one listing or search."""
        self._tally_at(now, (who, "")).count_query(found, saved_tokens)

    def since(self, oldest: float, fits: Callable[[str, str], bool]) -> list[tuple[int, Tally]]:
        """Like `Minutes.since`, for the callers and tools that match; queries have an
        empty tool.
        """
        found: list[tuple[int, Tally]] = []
        for began, parts in self._kept:
            if began + PART_S <= oldest:
                continue
            whole = Tally()
            for (who, tool), tally in parts.items():
                if fits(who, tool):
                    whole.add(tally)
            if whole.calls or whole.queries:
                found.append((began, whole))
        return found

    def callers(self) -> set[str]:
        """The callers for whom there is any tally."""
        return {who for _, parts in self._kept for who, _ in parts}

    def forget(self, who: str) -> None:
        """Delete one caller's tallies; those of all callers together stay."""
        for _, parts in self._kept:
            for part in [part for part in parts if part[0] == who]:
                del parts[part]
                self._count -= 1

    def _tally_at(self, now: float, part: tuple[str, str]) -> Tally:
        began = int(now // PART_S) * PART_S
        if not self._kept or self._kept[-1][0] != began:
            self._kept.append((began, {}))
            while self._kept[0][0] <= began - DAY_S - PART_S:
                self._count -= len(self._kept.popleft()[1])
        tally = self._kept[-1][1].get(part)
        if tally is None:
            if self._count >= self._most:
                self._make_room(now)
            tally = self._kept[-1][1][part] = Tally()
            self._count += 1
        return tally

    def _make_room(self, now: float) -> None:
        if len(self._kept) > 1:
            began, parts = self._kept.popleft()
            self.whole_from = began + PART_S
        else:
            parts = dict(self._kept[0][1])
            self._kept[0][1].clear()
            self.whole_from = now
        self._count -= len(parts)
