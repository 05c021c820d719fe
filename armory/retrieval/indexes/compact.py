"""Vectors quantized to two bytes a component, half of what floats take; tools come and go cheaply.

Owns: `Compact`. Never imports an index, an embedder or a ranker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.indexes.quantized import (
    QUERY_FINER,
    QUERY_ZERO,
    TOP,
    best_of_slots,
    matmul,
    multiplied,
    scales,
    two_byte_queries,
)
from armory.retrieval.ports import FloatArray, IntArray

T = TypeVar("T", bound=np.generic)
_BLOCK = 1_024
"""Tools quantized at a time."""
FINER = 2 * TOP
"""How much finer the second byte of a component is than the first."""


class Compact:
    """The vectors of n tools, several a tool; immutable.

    Quantized as in `quantized`, but with a second, finer byte, so no floats are kept beside them.
    The matrix is not packed, which would take as much memory again: a search takes up to twice as
    long, and the next state only a copy.

    Args:
        matrix: (d, 2, N) first and second bytes of the vectors: the first ones of all tools, then
            the second ones, ...
        scale: (N,) the scale of each column.
        zero: (2, N) what the queries' zero point adds to the products.
        at: (slots, n) the column of each tool's vectors; -1 where it has fewer.
    """

    def __init__(
        self,
        matrix: NDArray[np.int8],
        scale: FloatArray,
        zero: NDArray[np.int32],
        at: NDArray[np.int32],
    ) -> None:
        self._matrix, self._scale, self._zero, self._at = matrix, scale, zero, at
        self._owners = [np.flatnonzero(row >= 0) for row in at]

    @classmethod
    def of(cls, groups: Sequence[FloatArray], dimension: int) -> Compact:
        """From the (v, d) vectors of each tool, one at least."""
        blocks = (groups[i : i + _BLOCK] for i in range(0, len(groups), _BLOCK))
        sizes = np.array([len(group) for group in groups], np.int64)
        return cls.read(sizes, map(np.concatenate, blocks), dimension)

    @classmethod
    def read(cls, sizes: IntArray, blocks: Iterable[FloatArray], dimension: int) -> Compact:
        """From the tools' numbers of vectors, and all vectors tool by tool, some at a time."""
        held = np.arange(max(sizes, default=0))[:, None] < sizes
        at = _numbered(held)
        columns = at.T[held.T]
        matrix = np.empty((dimension, 2, len(columns)), np.int8)
        scale = np.empty(len(columns), np.float32)
        done = 0
        for vectors in blocks:
            place = columns[done : done + len(vectors)]
            done += len(vectors)
            scale[place], first, second = two_byte_vectors(vectors)
            matrix[:, 0, place], matrix[:, 1, place] = first.T, second.T
        return cls(matrix, scale, matrix.sum(0, dtype=np.int32) * QUERY_ZERO, at)

    def __len__(self) -> int:
        return self._at.shape[1]

    @property
    def dimension(self) -> int:
        """Length d of a vector."""
        return len(self._matrix)

    def after(self, source: IntArray, fresh: Compact) -> Compact:
        """The next state: row `i` is row `source[i]` of these and, behind them, of the fresh."""
        count = len(self._scale)
        slots = max(len(self._at), len(fresh._at))
        at = np.full((slots, len(self) + len(fresh)), -1, np.int32)
        at[: len(self._at), : len(self)] = self._at
        at[: len(fresh._at), len(self) :] = np.where(fresh._at < 0, -1, fresh._at + count)
        at = at[:, source]
        held = at >= 0
        columns, numbers = at[held], _numbered(held[held.any(1)])
        matrix = _picked(self._matrix, fresh._matrix, columns)
        scale = _picked(self._scale, fresh._scale, columns)
        zero = _picked(self._zero, fresh._zero, columns)
        return Compact(matrix, scale, zero, numbers)

    def group(self, row: int) -> FloatArray:
        """(v, d) the vectors of one tool, as they are known here."""
        columns = self._at[:, row]
        columns = columns[columns >= 0]
        first, second = self._matrix[:, :, columns].transpose(1, 2, 0).astype(np.float32)
        return (first + second / FINER) * self._scale[columns, None]

    def best(self, queries: FloatArray) -> FloatArray:
        """(m, n) float32: best cosine of each query with each tool."""
        if not len(self):
            return np.zeros((len(queries), 0), np.float32)
        rows, step = two_byte_queries(queries)
        flat = self._matrix.reshape(len(self._matrix), -1)
        products = multiplied(matmul(), {"queries": rows, "matrix": flat})
        products = products.reshape(2, len(queries), *self._zero.shape)
        products -= self._zero
        found = products[1].astype(np.float32)
        found *= np.float32(1 / QUERY_FINER)
        found += products[0]
        cosine = found[:, 1]
        cosine *= np.float32(1 / FINER)
        cosine += found[:, 0]
        cosine *= self._scale
        cosine *= step[:, None]
        return best_of_slots(cosine, self._owners)


def two_byte_vectors(vectors: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scales (v,) of (v, d) vectors, their first bytes and their second ones, (v, d) each."""
    scale = scales(vectors, TOP)
    given = vectors / scale[:, None]
    first = np.rint(given)
    return scale, first, np.rint((given - first) * FINER)


def _numbered(held: NDArray[np.bool_]) -> NDArray[np.int32]:
    """A number for each place that is held, slot by slot; -1 elsewhere."""
    return np.where(held, np.cumsum(held).reshape(held.shape) - 1, -1).astype(np.int32)


def _picked(old: NDArray[T], new: NDArray[T], columns: NDArray[np.int32]) -> NDArray[T]:
    """Some columns of two arrays side by side, all in an array of its own."""
    count, size = old.shape[-1], len(columns)
    if count == size:  # most are where they were
        found = old.copy()
        moved = np.flatnonzero(columns != np.arange(size))
        found[..., moved] = old[..., np.minimum(columns[moved], count - 1)]
    elif count:
        found = old.take(np.minimum(columns, count - 1), -1)
    else:
        found = np.empty((*new.shape[:-1], size), new.dtype)
    fresh = np.flatnonzero(columns >= count)
    found[..., fresh] = new[..., columns[fresh] - count]
    return found
