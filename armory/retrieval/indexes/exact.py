"""The default index: one NumPy matrix in process, every tool scored.

Owns: views, how a search goes over the matrix. Never imports an embedder or a ranker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from armory.errors import BackendError
from armory.retrieval.indexes.base import Segments, check_vectors, statistics
from armory.retrieval.indexes.rounded import Rounded, worth
from armory.retrieval.options import PartOptions
from armory.retrieval.ports import Embedder, FloatArray, IntArray, Row, VectorHits

#: Multiplications below which a search is done at once; above, in a thread (about 0.2 ms).
_INLINE = 1_000_000
#: Share of allowed tools below which copying their vectors beats scoring all, whole or rounded.
_GATHER = 0.2
_GATHER_ROUNDED = 0.1


class ExactView:
    """One state of the exact index."""

    def __init__(self, rows: Sequence[Row], vectors: Segments) -> None:
        self.rows = tuple(rows)
        self.segments = vectors
        self._rounded = Rounded(vectors) if worth(vectors) else None

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> VectorHits:
        """Every allowed tool with its cosine; `k` and `also` change nothing.

        In a large catalog cosines are off by 0.000006 (root mean square; 0.00005 at most,
        measured on vectors of 384 dimensions).
        """
        if len(queries) * self.segments.matrix.size <= _INLINE:
            return self._search(queries, allowed)
        return await asyncio.to_thread(self._search, queries, allowed)

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        return self.segments.matrix[self.segments.starts[rows]]

    def _search(self, queries: FloatArray, allowed: IntArray | None) -> VectorHits:
        total = len(self.segments)
        if queries.shape[1] != self.segments.matrix.shape[1] and total:
            raise BackendError(
                f"the query has {queries.shape[1]} dimensions, the index "
                f"{self.segments.matrix.shape[1]}; both need the same model"
            )
        whole = self._rounded or self.segments
        gather = _GATHER if self._rounded is None else _GATHER_ROUNDED
        if allowed is None:
            rows, cosine = np.arange(total), whole.best(queries)
        elif len(allowed) < gather * total:
            rows, cosine = allowed, self.segments.best(queries, allowed)
        else:
            rows, cosine = allowed, whole.best(queries)[:, allowed]
        mean, std = statistics(cosine)
        return VectorHits(rows, cosine, mean, std)


class ExactIndex:
    """All vectors in one matrix; an update builds the next matrix beside the one in use."""

    def __init__(self) -> None:
        self._view = ExactView((), Segments.of((), 0))
        self._places: dict[str, int] = {}
        self._digests: dict[str, str] = {}

    async def stored(self, rows: Sequence[Row]) -> Mapping[str, str]:
        """Digests of the last update."""
        return self._digests

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> ExactView:
        """The next view; see `ports.VectorIndex.update`."""
        self._view, self._places = await asyncio.to_thread(self._build, rows, changed)
        self._digests = {row.key: row.digest for row in rows}
        return self._view

    async def aclose(self) -> None:
        """Nothing is held outside memory."""

    def _build(
        self, rows: Sequence[Row], changed: Mapping[str, FloatArray]
    ) -> tuple[ExactView, dict[str, int]]:
        kept = any(row.key not in changed for row in rows)
        dimension = self._view.segments.dimension if kept and self._places else None
        source = np.empty(len(rows), np.int64)
        fresh: list[FloatArray] = []
        for i, row in enumerate(rows):
            vectors = changed.get(row.key)
            if vectors is not None:
                dimension = check_vectors(row.key, vectors, dimension)
                fresh.append(vectors)
                source[i] = -len(fresh)
            elif self._digests.get(row.key) == row.digest:
                source[i] = self._places[row.key]
            else:
                raise BackendError(f"tool {row.key}: no vectors given and none stored")
        new = Segments.of(fresh, dimension or 0)
        view = ExactView(rows, self._view.segments.after(source, new))
        return view, {row.key: i for i, row in enumerate(rows)}


def open_index(embedder: Embedder, options: PartOptions) -> ExactIndex:
    """The index of the name `exact`."""
    return ExactIndex()
