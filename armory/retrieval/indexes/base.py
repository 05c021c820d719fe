"""What indexes share: several vectors a tool reduced to its best, statistics over tools.

Owns: `Segments`, `background`, checks. The Protocol is `armory.retrieval.ports.VectorIndex`.
Never imports a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from armory.errors import BackendError
from armory.retrieval.ports import FloatArray, IntArray, Row

#: Tools whose vectors an index that does not score everything keeps, for mean and deviation.
SAMPLE = 4_096
_FLOOR = 64


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

    def __init__(self, groups: Sequence[FloatArray], dimension: int) -> None:
        sizes = np.array([len(g) for g in groups], np.int64)
        self.starts: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        empty = np.zeros((0, dimension), np.float32)
        self.matrix: FloatArray = np.concatenate([empty, *groups]) if groups else empty
        self._single = len(groups) == len(self.matrix)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def group(self, row: int) -> FloatArray:
        """(v, d) the vectors of one tool."""
        return self.matrix[self.starts[row] : self.starts[row + 1]]

    def best(self, queries: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """(m, r) float32: best cosine of each query with each tool of `rows` (None: all)."""
        if rows is None:
            matrix, starts, single = self.matrix, self.starts[:-1], self._single
        else:
            sizes = self.starts[rows + 1] - self.starts[rows]
            starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)[:-1]])
            picked = np.arange(int(sizes.sum())) + np.repeat(self.starts[rows] - starts, sizes)
            matrix, single = self.matrix[picked], bool((sizes == 1).all())
        if not len(starts):
            return np.zeros((len(queries), 0), np.float32)
        cosines = queries @ matrix.T
        if not single:
            cosines = np.maximum.reduceat(cosines, starts, axis=1)
        return np.clip(cosines, -1.0, 1.0)


def statistics(cosine: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(m,) mean and deviation of (m, c) cosines; 0 without any."""
    if not cosine.shape[1]:
        zero = np.zeros(len(cosine), np.float32)
        return zero, zero
    return cosine.mean(1, dtype=np.float32), cosine.std(1, dtype=np.float32)


class Background:
    """A stable sample of tools that stands for all of them in mean and deviation.

    The sample is taken by a hash of the key, so replicas and restarts choose the same tools.
    """

    def __init__(self, rows: Sequence[Row], groups: Mapping[str, FloatArray], dim: int) -> None:
        chosen = set(self.choose([row.key for row in rows if row.key in groups]))
        known = [i for i, row in enumerate(rows) if row.key in chosen]
        self.rows: IntArray = np.array(known, np.int64)
        self._vectors = Segments([groups[rows[i].key] for i in known], dim)

    @staticmethod
    def choose(keys: Sequence[str]) -> list[str]:
        """The sampled keys among these."""
        if len(keys) <= SAMPLE:
            return list(keys)
        return sorted(keys, key=lambda k: hashlib.md5(k.encode("utf-8", "replace")).digest())[
            :SAMPLE
        ]

    def statistics(
        self, queries: FloatArray, allowed: IntArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """(m,) mean and deviation of the best cosine over the sampled tools that are allowed."""
        chosen: IntArray | None = None
        if allowed is not None:
            inside = np.flatnonzero(np.isin(self.rows, allowed, assume_unique=True))
            chosen = inside if len(inside) >= _FLOOR else None
        return statistics(self._vectors.best(queries, chosen))
