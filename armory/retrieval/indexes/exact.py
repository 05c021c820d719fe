"""The default index: one NumPy matrix in process, every tool scored.

Owns: exact search. Never imports an embedder or a ranker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from armory.errors import BackendError
from armory.retrieval.indexes.base import Segments, check_vectors, statistics
from armory.retrieval.ports import FloatArray, Hits, IntArray, Row

#: Multiplications below which a search is done at once; above, in a thread (about 0.2 ms).
_INLINE = 1_000_000
#: Share of allowed tools below which copying their vectors beats scoring all.
_GATHER = 0.2


class ExactView:
    """One state of the exact index."""

    def __init__(self, rows: Sequence[Row], vectors: Segments) -> None:
        self.rows = tuple(rows)
        self._vectors = vectors

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> Hits:
        """Every allowed tool with its cosine; `k` and `also` change nothing."""
        if len(queries) * self._vectors.matrix.size <= _INLINE:
            return self._search(queries, allowed)
        return await asyncio.to_thread(self._search, queries, allowed)

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        return self._vectors.matrix[self._vectors.starts[rows]]

    def group(self, row: int) -> FloatArray:
        """(v, d) the vectors of one row."""
        return self._vectors.group(row)

    def _search(self, queries: FloatArray, allowed: IntArray | None) -> Hits:
        total = len(self._vectors)
        if queries.shape[1] != self._vectors.matrix.shape[1] and total:
            raise BackendError(
                f"the query has {queries.shape[1]} dimensions, the index "
                f"{self._vectors.matrix.shape[1]}; both need the same model"
            )
        if allowed is None:
            rows, cosine = np.arange(total), self._vectors.best(queries)
        elif len(allowed) < _GATHER * total:
            rows, cosine = allowed, self._vectors.best(queries, allowed)
        else:
            rows, cosine = allowed, self._vectors.best(queries)[:, allowed]
        mean, std = statistics(cosine)
        return Hits(rows, cosine, mean, std)


class ExactIndex:
    """All vectors in one matrix; an update builds the next matrix beside the one in use."""

    def __init__(self) -> None:
        self._view = ExactView((), Segments((), 0))
        self._digests: dict[str, str] = {}

    async def stored(self) -> Mapping[str, str]:
        """Digests of the last update."""
        return self._digests

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> ExactView:
        """The next view; see `ports.VectorIndex.update`."""
        view = await asyncio.to_thread(self._build, rows, changed)
        self._view, self._digests = view, {row.key: row.digest for row in rows}
        return view

    async def aclose(self) -> None:
        """Nothing is held outside memory."""

    def _build(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> ExactView:
        old = {row.key: i for i, row in enumerate(self._view.rows)}
        groups: list[FloatArray] = []
        dimension: int | None = None
        for row in rows:
            vectors = changed.get(row.key)
            if vectors is None:
                if self._digests.get(row.key) != row.digest:
                    raise BackendError(f"tool {row.key}: no vectors given and none stored")
                vectors = self._view.group(old[row.key])
            dimension = check_vectors(row.key, vectors, dimension)
            groups.append(vectors)
        return ExactView(rows, Segments(groups, dimension or 0))
