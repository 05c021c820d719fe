"""Memory of use: queries that led to a successful call, as further vectors of the called tool.

Owns: the vectors, their age, their users, and what counts. In memory: to keep them over restarts,
store `entries` and give them to `restore`. Never imports rankers or indexes.

Against poisoning: only successful calls are learned from; of one user at most `per_user` queries a
tool are kept, and `user_total` in all; equal queries count once; a tool whose evidence stays below
`floor` gains nothing; and for other users all uses of one user together are worth `others_see`,
which is less than `floor`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.embedders.base import text_hash
from armory.retrieval.ports import FloatArray, IntArray, Recalled

_DAY_S = 86_400.0
USER_TOTAL = 2_000
"""Most queries of one user that are kept in all."""
_NO_GROUPS: IntArray = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class UseEntry:
    """One remembered use.

    Attributes:
        tool: exposed name.
        user: who called; None: nobody in particular.
        key: hash of the query's text.
        vector: (d,) float32 unit vector of the query.
        at: seconds since the epoch.
    """

    tool: str
    user: str | None
    key: str
    vector: FloatArray
    at: float


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """All uses as arrays, tool by tool: n uses of t tools, in g groups. A group is the uses of one
    tool by one user.

    Attributes:
        names: (t,) the tools.
        matrix: (n, d) float32 unit vectors of the queries.
        at: (n,) when each use happened, seconds since the epoch.
        tool: (n,) position in `names` of the tool of each use, ascending.
        group: (n,) group of each use.
        group_tool: (g,) position in `names` of the tool of each group.
        group_known: (g,) whether the group's user is known.
        groups_of: the groups of each known user.
        mean: (t, d) unit mean of each tool's queries; see `_means`.
    """

    names: tuple[str, ...]
    matrix: FloatArray
    at: NDArray[np.float64]
    tool: IntArray
    group: IntArray
    group_tool: IntArray
    group_known: NDArray[np.bool_]
    groups_of: dict[str, IntArray]
    mean: FloatArray


@dataclass(frozen=True, slots=True)
class FeedbackLimits:
    """How many uses are kept, and how much they count.

    Attributes:
        floor: uses, less what age takes of them, that a tool needs before they count. It is more
            than one user is worth to others; three uses that are not quite new are enough.
        per_tool: most queries kept for a tool; the oldest go first.
        per_user: most queries of one user kept for a tool.
        others_see: most that one user's uses of a tool are worth to other users.
        most: most queries kept in all; the oldest go first.
        user_total: most queries of one user kept in all.
        half_life_days: age at which a use counts half.
    """

    floor: float = 2.5
    per_tool: int = 64
    per_user: int = 32
    others_see: float = 2.0
    most: int = 20_000
    user_total: int = USER_TOTAL
    half_life_days: float = 90.0


class FeedbackVectors:
    """Remembered queries; satisfies `ports.UseMemory`. Thread-safe.

    Args:
        limits: what is kept; None: the defaults.
        clock: seconds since the epoch.
    """

    def __init__(
        self, limits: FeedbackLimits | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._limits = limits or FeedbackLimits()
        self._clock = clock
        self._lock = threading.Lock()
        self._tools: dict[str, dict[tuple[str | None, str], UseEntry]] = {}
        self._table: _Table | None = None
        self._stamp: str | None = None

    def learn(self, query: str, vector: FloatArray, tool: str, user: str | None = None) -> None:
        """Record that a query led to a successful call of a tool."""
        self.restore([UseEntry(tool, user, text_hash(query), vector, self._clock())])

    def restore(self, entries: Iterable[UseEntry]) -> None:
        """Add uses that were stored."""
        with self._lock:
            for entry in entries:
                kept = self._tools.setdefault(entry.tool, {})
                kept.pop((entry.user, entry.key), None)
                kept[entry.user, entry.key] = entry
                own = [key for key in kept if key[0] == entry.user]
                if len(own) > self._limits.per_user and entry.user is not None:
                    del kept[own[0]]
                elif len(kept) > self._limits.per_tool:
                    del kept[next(iter(kept))]
            self._trim()
            self._table = self._stamp = None

    def _trim(self) -> None:
        """Delete the oldest uses beyond `most`, and beyond each user's `user_total`."""
        total = sum(map(len, self._tools.values()))
        if total <= min(self._limits.most, self._limits.user_total):
            return
        everything = [entry for kept in self._tools.values() for entry in kept.values()]
        everything.sort(key=lambda entry: -entry.at)
        left = self._limits.most
        by_user: Counter[str] = Counter()
        for entry in everything:
            if entry.user is not None:
                by_user[entry.user] += 1
            if left and (entry.user is None or by_user[entry.user] <= self._limits.user_total):
                left -= 1
                continue
            kept = self._tools[entry.tool]
            del kept[entry.user, entry.key]
            if not kept:
                del self._tools[entry.tool]

    @property
    def stamp(self) -> str:
        """Text that changes whenever the uses do."""
        with self._lock:
            if self._stamp is None:
                times = [e.at for kept in self._tools.values() for e in kept.values()]
                self._stamp = f"{len(times)}:{max(times, default=0.0):.3f}"
            return self._stamp

    def entries(self) -> list[UseEntry]:
        """All uses."""
        with self._lock:
            return [entry for kept in self._tools.values() for entry in kept.values()]

    def forget(self, *, tool: str | None = None, user: str | None = None) -> int:
        """Delete the uses of a tool, of a user, of both together, or all; returns how many."""
        gone = 0
        with self._lock:
            for name, kept in list(self._tools.items()):
                if tool is not None and name != tool:
                    continue
                keys = [key for key in kept if user is None or key[0] == user]
                for key in keys:
                    del kept[key]
                gone += len(keys)
                if not kept:
                    del self._tools[name]
            self._table = self._stamp = None
        return gone

    def recall(self, queries: FloatArray, user: str | None) -> Recalled:
        """Cosine similarities of the queries with the past queries of each tool that has enough of
        them, and with their mean.

        `user` does not narrow: everybody's successes are evidence. Those of `user` count double,
        those of any other user at most `others_see` a tool.

        Args:
            queries: (q, d) float32 unit rows.
            user: who asks; None: nobody in particular.
        """
        table = self._current()
        if not table.names or table.matrix.shape[1] != queries.shape[1]:
            none = np.zeros((len(queries), 0), np.float32)
            return Recalled((), none, none, np.zeros(0, np.float32))
        mass = self._mass(table, user)
        starts = np.flatnonzero(np.diff(table.tool, prepend=-1))
        best = np.maximum.reduceat(queries @ table.matrix.T, starts, axis=1)
        enough = np.flatnonzero(mass >= self._limits.floor)
        names: Sequence[str] = [table.names[i] for i in enough.tolist()]
        centre = queries @ table.mean[enough].T
        return Recalled(names, np.clip(best[:, enough], 0, 1), centre, mass[enough])

    def _mass(self, table: _Table, user: str | None) -> FloatArray:
        """(t,) float32, how many uses stand behind each tool for `user`, less what age takes."""
        age_s = np.maximum(self._clock() - table.at, 0)
        weight = 0.5 ** (age_s / (self._limits.half_life_days * _DAY_S))
        worth = np.bincount(table.group, weight, len(table.group_tool))
        own = table.groups_of.get(user, _NO_GROUPS) if user is not None else _NO_GROUPS
        doubled = worth[own] * 2
        worth = np.where(table.group_known, np.minimum(worth, self._limits.others_see), worth)
        worth[own] = doubled
        return np.bincount(table.group_tool, worth, len(table.names)).astype(np.float32)

    def _current(self) -> _Table:
        with self._lock:
            if self._table is None:
                self._table = _table_of(self._tools, self._limits.others_see)
            return self._table


def _table_of(
    tools: Mapping[str, Mapping[tuple[str | None, str], UseEntry]], others_see: float
) -> _Table:
    entries = [entry for kept in tools.values() for entry in kept.values()]
    tool = np.repeat(np.arange(len(tools)), [len(kept) for kept in tools.values()])
    groups: dict[tuple[int, str | None], int] = {}
    group = np.array(
        [
            groups.setdefault((place, entry.user), len(groups))
            for place, entry in zip(tool.tolist(), entries, strict=True)
        ],
        np.int64,
    )
    groups_of: dict[str, list[int]] = {}
    for (_, user), number in groups.items():
        if user is not None:
            groups_of.setdefault(user, []).append(number)
    empty = np.zeros((0, 0), np.float32)
    matrix = np.stack([entry.vector for entry in entries]) if entries else empty
    known = np.array([user is not None for _, user in groups], np.bool_)
    return _Table(
        names=tuple(tools),
        matrix=matrix,
        at=np.array([entry.at for entry in entries], np.float64),
        tool=tool,
        group=group,
        group_tool=np.array([place for place, _ in groups], np.int64),
        group_known=known,
        groups_of={user: np.array(own, np.int64) for user, own in groups_of.items()},
        mean=_means(matrix, tool, group, known, others_see) if entries else matrix,
    )


def _means(
    matrix: FloatArray,
    tool: IntArray,
    group: IntArray,
    known: NDArray[np.bool_],
    others_see: float,
) -> FloatArray:
    """(t, d) unit mean of each tool's queries; those of one user together weigh at most
    `others_see`.

    Args:
        matrix: (n, d) float32 unit vectors of the queries.
        tool: (n,) position of the tool of each use, ascending.
        group: (n,) group of each use.
        known: (g,) whether the group's user is known.
        others_see: as of `FeedbackLimits`.
    """
    sizes = np.bincount(group)[group]
    weight = np.where(known[group], np.minimum(sizes, others_see) / sizes, 1.0)
    starts = np.flatnonzero(np.diff(tool, prepend=-1))
    summed = np.add.reduceat(matrix * weight[:, None].astype(np.float32), starts, axis=0)
    length = np.linalg.norm(summed, axis=1, keepdims=True)
    return (summed / np.maximum(length, 1e-9)).astype(np.float32)
