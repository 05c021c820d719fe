"""The vectors of a large catalog in two layers: most, and the few that were added since.

Owns: `Layers`: one state of all vectors, the next one at the cost of what changed. Never imports
an index, an embedder or a ranker.

Quantizing a large matrix takes much longer than a new tool may take to be found. So new vectors are
quantized by themselves, until they have become too many. A cosine does not depend on the vectors
beside it, so the layer that a vector is in changes nothing.
"""

from __future__ import annotations

import numpy as np

from armory.retrieval.indexes.base import Segments
from armory.retrieval.indexes.quantized import QuantizedVectors, is_quicker
from armory.retrieval.ports import FloatArray, IntArray

#: This many tools, or one in this many, may be in the fresh layer before both are merged.
_FEW = 64


class _Layer:
    """Vectors, and their quantized copy where that pays."""

    def __init__(self, vectors: Segments, *, quantized: bool) -> None:
        self.vectors = vectors
        self.quantized = QuantizedVectors(vectors) if quantized else None

    def best(self, queries: FloatArray) -> FloatArray:
        return (self.quantized or self.vectors).best(queries)

    @property
    def error_bound(self) -> float:
        return self.quantized.error_bound if self.quantized else 0.0


class Layers:
    """The vectors of n tools; immutable.

    Args:
        base: of most.
        fresh: of those that came since; None: none came.
        source: (n,) as in `Segments.after`, of `base` and `fresh`.

    Attributes:
        count: vectors of all tools together.
    """

    def __init__(self, base: _Layer, fresh: _Layer | None, source: IntArray) -> None:
        self._base, self._fresh, self._source = base, fresh, source
        self._added: IntArray = np.flatnonzero(source < 0)
        others = len(source) - len(self._added)
        #: Whether every row that is not fresh is the same row of `base`.
        self._in_place = len(source) == len(base.vectors) and others == np.count_nonzero(
            source == np.arange(len(source))
        )
        self.count = _count(source, base.vectors, fresh.vectors if fresh else None)

    @classmethod
    def of(cls, vectors: Segments) -> Layers:
        """All together, in order."""
        return cls(_Layer(vectors, quantized=is_quicker(vectors)), None, np.arange(len(vectors)))

    def __len__(self) -> int:
        return len(self._source)

    @property
    def dimension(self) -> int:
        """Length d of a vector."""
        return self._base.vectors.dimension

    @property
    def quantized(self) -> bool:
        """Whether the quantized copies are multiplied."""
        return self._base.quantized is not None

    def after(self, source: IntArray, fresh: Segments) -> Layers:
        """The next state; see `Segments.after`."""
        base, since = self._base.vectors, fresh
        moved, added = source.copy(), source < 0
        moved[~added] = self._source[source[~added]]
        if self._fresh is not None:
            moved[added] -= len(self._fresh.vectors)
            groups = [*self._fresh.vectors.groups(), *fresh.groups()]
            since = Segments.of(groups, self.dimension)
        differ = len(since) + len(base) - np.count_nonzero(moved >= 0)
        few = differ <= max(_FEW, len(base) // _FEW)
        if self.quantized and few and is_quicker(base, _count(moved, base, since)):
            return Layers(self._base, _Layer(since, quantized=True) if len(since) else None, moved)
        return Layers.of(base.after(moved, since))

    def best(self, queries: FloatArray) -> FloatArray:
        """(m, n) float32: best cosine of each query with each tool, to within `error_bound`."""
        found = self._base.best(queries)
        if not self._in_place:
            found = found.take(np.maximum(self._source, 0), 1)  # which keeps a row side by side
        if self._fresh is not None:
            places = -1 - self._source[self._added]
            found[:, self._added] = self._fresh.best(queries)[:, places]
        return found

    @property
    def error_bound(self) -> float:
        """The error of `best`, see `QuantizedVectors`; 0 where floats are multiplied."""
        return max(self._base.error_bound, self._fresh.error_bound if self._fresh else 0.0)

    def some(self, queries: FloatArray, rows: IntArray) -> FloatArray:
        """(m, r) the same of some tools, by their float vectors."""
        return self._picked(rows).best(queries)

    def exact(self, queries: FloatArray, rows: IntArray) -> FloatArray:
        """(m, r) the same, see `Segments.exact`."""
        return self._picked(rows).exact(queries)

    def first(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each tool."""
        picked = self._picked(rows)
        return picked.matrix[picked.starts[:-1]]

    def _picked(self, rows: IntArray) -> Segments:
        base = self._base.vectors
        if self._fresh is None:
            return base.take(self._source[rows])
        return base.after(self._source[rows], self._fresh.vectors)


def _count(source: IntArray, base: Segments, fresh: Segments | None) -> int:
    """Vectors of all rows of a source."""
    total = int(np.diff(base.starts)[source[source >= 0]].sum())
    if fresh is not None:
        total += int(np.diff(fresh.starts)[-1 - source[source < 0]].sum())
    return total
