"""Shared by all indexes: the best of several vectors of a tool, statistics over tools.

Owns: `Segments`, `statistics`, checks. The Protocol is `armory.retrieval.ports.VectorIndex`.
Never imports a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from armory.errors import BackendError
from armory.retrieval.ports import FloatArray, IntArray

_BLOCK = 256
_FEW_QUERIES = 8


def check_vectors(key: str, vectors: FloatArray, dimension: int | None) -> int:
    """The dimension of (v, d) vectors.

    Raises:
        BackendError: none, another dimension than the others, or not finite.
    """
    if vectors.ndim != 2 or not len(vectors):
        raise BackendError(f"tool {key}: vectors of shape {vectors.shape}, expected (v, d), v >= 1")
    if dimension is not None and vectors.shape[1] != dimension:
        raise BackendError(
            f"tool {key}: vectors of dimension {vectors.shape[1]}, the index has {dimension}; "
            "an index holds the vectors of one model"
        )
    if not np.isfinite(vectors).all():
        raise BackendError(f"tool {key}: a vector has NaN or infinite components")
    return int(vectors.shape[1])


class Segments:
    """Vectors of many tools in one matrix, those of a tool side by side.

    Attributes:
        matrix: (N, d) float32 unit rows.
        starts: (n + 1,) int64; the vectors of row i are `matrix[starts[i]:starts[i + 1]]`.
    """

    def __init__(self, matrix: FloatArray, sizes: IntArray) -> None:
        self.matrix = matrix
        self.starts: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self._single = len(sizes) == len(matrix)

    @classmethod
    def of(cls, groups: Sequence[FloatArray], dimension: int) -> Segments:
        """From the (v, d) vectors of each tool."""
        empty = np.zeros((0, dimension), np.float32)
        return cls(
            np.concatenate([empty, *groups]) if groups else empty,
            np.array([len(g) for g in groups], np.int64),
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def dimension(self) -> int:
        """Length d of a vector."""
        return self.matrix.shape[1]

    def after(self, source: IntArray, fresh: Segments) -> Segments:
        """The next state: row `i` is row `source[i]` of this one, or, where that is negative, row
        `-1 - source[i]` of `fresh`.
        """
        kept = source >= 0
        if not kept.any():
            return fresh.take(-1 - source)
        if kept.all():
            return self.take(source)
        sizes = np.empty(len(source), np.int64)
        sizes[kept] = np.diff(self.starts)[source[kept]]
        sizes[~kept] = np.diff(fresh.starts)[-1 - source[~kept]]
        new = np.repeat(~kept, sizes)
        places = np.zeros(len(new), np.int64)
        places[~new] = self._places(source[kept])
        matrix = self.matrix.take(places, 0)
        matrix[np.flatnonzero(new)] = fresh.matrix[fresh._places(-1 - source[~kept])]
        return Segments(matrix, sizes)

    def take(self, rows: IntArray) -> Segments:
        """These tools, in this order."""
        return Segments(self.matrix.take(self._places(rows), 0), np.diff(self.starts)[rows])

    def group(self, row: int) -> FloatArray:
        """(v, d) the vectors of one tool."""
        return self.matrix[self.starts[row] : self.starts[row + 1]]

    def groups(self) -> Iterator[FloatArray]:
        """The (v, d) vectors of each tool; no copies."""
        return map(self.group, range(len(self)))

    def best(self, queries: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """(m, r) float32: best cosine of each query with each tool of `rows` (None: all)."""
        some = self if rows is None else self.take(rows)
        if not len(some):
            return np.zeros((len(queries), 0), np.float32)
        return some._best_of_each(_products(queries, some.matrix))

    def exact(self, queries: FloatArray) -> FloatArray:
        """(m, n) the same, each pair summed by itself: equal vectors have equal cosines, whatever
        stands beside them. Takes longer for many; no large array is made.
        """
        pairs = np.matmul(queries[:, None, None, :], self.matrix[:, :, None])  # BLAS' dot, for each
        return self._best_of_each(pairs[..., 0, 0])

    def _best_of_each(self, cosines: FloatArray) -> FloatArray:
        """(m, n) of (m, N)."""
        if not self._single:
            cosines = np.maximum.reduceat(cosines, self.starts[:-1], axis=1)
        return np.clip(cosines, -1.0, 1.0, out=cosines)

    def _places(self, rows: IntArray) -> IntArray:
        """Rows of the matrix that belong to some tools, side by side."""
        sizes = self.starts[rows + 1] - self.starts[rows]
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        return np.arange(total) + np.repeat(self.starts[rows] - (ends - sizes), sizes)


def _products(queries: FloatArray, matrix: FloatArray) -> FloatArray:
    """(m, N) dot products.

    The matrix does not fit a core's cache, and BLAS reads it more than once for two to seven
    queries at a time: block by block, every query over a block while it is near, takes 0.5 to 0.9
    of the time (19,445 x 384).
    """
    if not 1 < len(queries) < _FEW_QUERIES or len(matrix) < 2 * _BLOCK:
        return queries @ matrix.T
    found = np.empty((len(queries), len(matrix)), np.float32)
    for start in range(0, len(matrix), _BLOCK):
        block = matrix[start : start + _BLOCK]
        for query, row in zip(queries, found, strict=True):
            np.dot(block, query, out=row[start : start + _BLOCK])
    return found


def statistics(cosine: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(m,) mean and deviation of (m, c) cosines; 0 without any."""
    if not cosine.shape[1]:
        zero = np.zeros(len(cosine), np.float32)
        return zero, zero
    return cosine.mean(1, dtype=np.float32), cosine.std(1, dtype=np.float32)
