"""The default index: one NumPy matrix in process, every tool scored.

Owns: views, how a search goes over the matrix. Never imports an embedder or a ranker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from armory.errors import BackendError
from armory.retrieval.greatest import cutoff
from armory.retrieval.indexes.base import Segments, check_vectors, statistics
from armory.retrieval.indexes.layers import Layers
from armory.retrieval.options import PartOptions
from armory.retrieval.ports import Embedder, FloatArray, IntArray, Row, VectorHits
from armory.retrieval.states import differing

#: Multiplications below which a search is done at once; above, in a thread (about 0.2 ms).
_INLINE = 1_000_000
#: Share of allowed tools below which copying their vectors beats scoring all, floats or quantized.
_GATHER = 0.2
_GATHER_QUANTIZED = 0.03
#: So many best of each query are scored again by their float vectors where all are quantized.
_EXACT = 100


class ExactView:
    """One state of the exact index."""

    def __init__(self, rows: tuple[Row, ...], vectors: Layers) -> None:
        self.rows = rows
        self.layers = vectors

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> VectorHits:
        """Every allowed tool with its cosine; `k` changes nothing.

        In a large catalog the cosine of those that are neither among the best hundred of some query
        nor in `also` is off by 0.0004 (root mean square, measured on vectors of 384 dimensions).
        """
        if len(queries) * self.layers.count * self.layers.dimension <= _INLINE:
            return self._search(queries, allowed, also)
        return await asyncio.to_thread(self._search, queries, allowed, also)

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        return self.layers.first(rows)

    def _search(
        self, queries: FloatArray, allowed: IntArray | None, also: IntArray | None
    ) -> VectorHits:
        layers, total = self.layers, len(self.layers)
        if queries.shape[1] != layers.dimension and total:
            raise BackendError(
                f"the query has {queries.shape[1]} dimensions, the index "
                f"{layers.dimension}; both need the same model"
            )
        gather = _GATHER_QUANTIZED if layers.quantized else _GATHER
        if allowed is not None and len(allowed) < gather * total:
            rows, cosine = allowed, layers.some(queries, allowed)
        else:
            rows, cosine = np.arange(total), layers.best(queries)
            if allowed is not None:
                rows, cosine = allowed, cosine[:, allowed]
            if layers.quantized:
                wanted = _near(cosine, layers.error_bound)
                if also is not None:
                    wanted[also if allowed is None else np.searchsorted(rows, also)] = True
                places = np.flatnonzero(wanted)
                cosine[:, places] = layers.exact(queries, rows[places])
        mean, std = statistics(cosine)
        return VectorHits(rows, cosine, mean, std)


def _near(cosine: FloatArray, error_bound: float) -> NDArray[np.bool_]:
    """(c,) whether a tool may be among the best hundred of some query.

    Args:
        cosine: (m, c) of quantized vectors.
        error_bound: by how much each may be off.
    """
    if cosine.shape[1] <= _EXACT:
        return np.ones(cosine.shape[1], np.bool_)
    least = cutoff(cosine, _EXACT) - np.float32(2 * error_bound)
    return np.any(cosine >= least[:, None], axis=0)


class ExactIndex:
    """All vectors in one matrix; an update builds the next state beside the one in use."""

    def __init__(self) -> None:
        self._view = ExactView((), Layers.of(Segments.of((), 0)))
        self._places: dict[str, int] = {}
        self._digests: dict[str, str] = {}

    async def stored(self, rows: Sequence[Row]) -> Mapping[str, str]:
        """Digests of the last update."""
        return self._digests

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> ExactView:
        """The next view; see `ports.VectorIndex.update`."""
        found = await asyncio.to_thread(self._build, tuple(rows), changed)
        self._view, self._places, self._digests = found
        return self._view

    async def aclose(self) -> None:
        """Nothing: it holds no resources."""

    def _build(
        self, rows: tuple[Row, ...], changed: Mapping[str, FloatArray]
    ) -> tuple[ExactView, dict[str, int], dict[str, str]]:
        before = self._view.rows
        others: Sequence[int] | None = differing(rows, before)
        if others is None or any(rows[i].key != before[i].key for i in others):
            places = {row.key: i for i, row in enumerate(rows)}
            digests = {row.key: row.digest for row in rows}
            others = range(len(rows))
        else:  # most are the very rows that they were
            places = self._places
            digests = {**self._digests, **{rows[i].key: rows[i].digest for i in others}}
        source = np.arange(len(rows))
        fresh: list[FloatArray] = []
        kept = len(others) < len(rows) or any(row.key not in changed for row in rows)
        dimension = self._view.layers.dimension if kept and self._places else None
        for i in others:
            row = rows[i]
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
        return ExactView(rows, self._view.layers.after(source, new)), places, digests


def open_index(embedder: Embedder, options: PartOptions) -> ExactIndex:
    """The index of the name `exact`."""
    return ExactIndex()
