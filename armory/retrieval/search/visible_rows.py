"""The rows of a snapshot that belong to a visible set.

Owns: finding them, once for as long as set and snapshot stay. Never imports policy, embedders,
indexes or rankers.
"""

from __future__ import annotations

import asyncio

import numpy as np
from cachetools import LRUCache

from armory.domain.query import VisibleSet
from armory.retrieval.ports import IntArray
from armory.retrieval.search.threads import SearchThreads
from armory.retrieval.snapshot import Snapshot

_MANY = 4
_KEPT = 1_000_000
"""Names in the visible sets whose rows are kept, some 50 bytes each."""


class VisibleRows:
    """Rows by visible set, of the snapshot that is served.

    Args:
        threads: where they are found.
    """

    def __init__(self, threads: SearchThreads) -> None:
        self._threads = threads
        self._snapshot: Snapshot | None = None
        self._rows: LRUCache[int, tuple[VisibleSet, IntArray | None]] = LRUCache(
            _KEPT, getsizeof=lambda kept: 1 + len(kept[0].names)
        )

    def swapped(self, snapshot: Snapshot) -> None:
        """Switch to another snapshot."""
        self._snapshot = snapshot
        self._rows.clear()

    async def rows(self, snapshot: Snapshot, visible: VisibleSet | None) -> IntArray | None:
        """(n,) ascending rows of the tools in `visible`; None: all of them."""
        if visible is None:
            return None
        known = self._rows.get(id(visible))
        if known is not None and known[0] is visible:
            return known[1]
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self._threads.usual, _rows_of, snapshot, visible.names)
        if snapshot is self._snapshot and len(visible.names) < _KEPT:  # another has other rows
            self._rows[id(visible)] = (visible, rows)
        return rows


def _rows_of(snapshot: Snapshot, names: frozenset[str]) -> IntArray | None:
    """Ascending rows of the named tools; None where that is all of them.

    Of many names the rows are gone through, which takes a quarter of the time for each, and leaves
    little to sort: all threads would wait while 100,000 rows in any order are sorted.
    """
    row_of = snapshot.row_of
    if _MANY * len(names) < len(row_of):
        rows = [row_of[name] for name in names if name in row_of]
    else:
        rows = [row for name, row in row_of.items() if name in names]
    if len(rows) == len(snapshot.records):
        return None
    return np.array(sorted(rows), np.int64)
