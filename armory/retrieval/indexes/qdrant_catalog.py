"""Which point of a collection each tool of a catalog is.

Owns: `CatalogPoints`, made from the last ones at the cost of what changed. Never imports a store,
an embedder or a ranker.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.indexes.background import Background
from armory.retrieval.indexes.qdrant_points import point_id
from armory.retrieval.ports import Row
from armory.retrieval.states import differing


class CatalogPoints:
    """The points of one state of a catalog; immutable. Making them is O(rows), mostly in C.

    Args:
        rows: the tools.
        before: those of the last state; tools that it has are not hashed again.

    Attributes:
        rows: as given.
        ids: the point of each row; rows of equal content share one.
        first: the points, and the first row that is each.
        servers: (n,) int32, a small code of each row's server.
        server_names: by code.
        digests: by key.
        sampled: the ascending rows of the sample that stands for all (`background`).
    """

    def __init__(self, rows: Sequence[Row], before: CatalogPoints | None = None) -> None:
        self.rows = tuple(rows)
        others = None if before is None else differing(self.rows, before.rows)
        self.ids = self._ids(before, others)
        self.first, self._further = self._firsts(before, others)
        if before is None or others is None or not all(self._stays(before, i) for i in others):
            self.digests = {row.key: row.digest for row in self.rows}
            self.servers, self.server_names = _codes([row.server for row in self.rows])
            self.sampled = Background.choose([row.key for row in self.rows]).tolist()
        else:
            changed = {self.rows[i].key: self.rows[i].digest for i in others}
            self.digests = {**before.digests, **changed}
            self.servers, self.server_names = before.servers, before.server_names
            self.sampled = before.sampled

    def are_of(self, rows: Sequence[Row]) -> bool:
        """Whether these are the very rows."""
        return len(rows) == len(self.rows) and all(map(operator.is_, rows, self.rows))

    def rows_of(self, point: str) -> Sequence[int]:
        """The rows that are a point, ascending; none for one of others."""
        first = self.first.get(point)
        if first is None:
            return ()
        return self._further.get(point) or (first,)

    def _ids(self, before: CatalogPoints | None, others: list[int] | None) -> list[str]:
        """Those of unchanged rows as they were; `others`: the rows that changed in their place."""
        if before is None:
            return [point_id(row) for row in self.rows]
        if others is not None and len(others) < len(self.rows) // 2:
            ids = before.ids.copy()
            for i in others:
                ids[i] = point_id(self.rows[i])
            return ids
        known = {row.key: i for i, row in enumerate(before.rows)}
        ids = list[str]()
        for row in self.rows:
            i = known.get(row.key)
            same = i is not None and (before.rows[i] is row or before.rows[i] == row)
            ids.append(before.ids[i] if i is not None and same else point_id(row))
        return ids

    def _firsts(
        self, before: CatalogPoints | None, others: list[int] | None
    ) -> tuple[dict[str, int], dict[str, list[int]]]:
        """The first row of each point, and all rows of those that are several."""
        if before is not None and others is not None and len(others) < len(self.ids) // 2:
            gone, come = ([ids[i] for i in others] for ids in (before.ids, self.ids))
            alone = before._further.keys().isdisjoint(gone)
            if alone and len({*come}) == len(come) and before.first.keys().isdisjoint(come):
                first = before.first.copy()
                for point in gone:
                    del first[point]
                first.update(zip(come, others, strict=True))
                return first, before._further
        first = dict(zip(reversed(self.ids), range(len(self.ids) - 1, -1, -1), strict=True))
        further: dict[str, list[int]] = {}
        if len(first) < len(self.ids):
            for i, point in enumerate(self.ids):
                if first[point] != i:
                    further.setdefault(point, [first[point]]).append(i)
        return first, further

    def _stays(self, before: CatalogPoints, i: int) -> bool:
        """Whether a row has the name and the server of the one that was in its place."""
        row, was = self.rows[i], before.rows[i]
        return row.key == was.key and row.server == was.server


def _codes(names: Sequence[str]) -> tuple[NDArray[np.int32], list[str]]:
    known = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.fromiter(map(known.__getitem__, names), np.int32, len(names)), list(known)
