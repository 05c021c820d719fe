"""Named signals of a few tools in one matrix, and as if every tool had them.

Owns: `SignalTable` and `SparseSignals`. Pure NumPy; never imports anything but array types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.ports import FloatArray, IntArray


@lru_cache(maxsize=64)
def _places(names: tuple[str, ...]) -> Mapping[str, int]:
    return {name: i for i, name in enumerate(names)}


class SignalTable(Mapping[str, FloatArray]):
    """Signals by name, (k,) float32 each, the rows of one matrix.

    Attributes:
        names: s of them, all different.
        rows: (s, k) float32.
    """

    __slots__ = ("_at", "names", "rows")

    def __init__(self, names: tuple[str, ...], rows: FloatArray) -> None:
        self.names = names
        self.rows = rows
        self._at = _places(names)

    @classmethod
    def of(cls, signals: Mapping[str, NDArray[Any] | Sequence[bool]], size: int) -> SignalTable:
        """From (size,) numbers of any type."""
        rows = np.empty((len(signals), size), np.float32)
        for row, given in zip(rows, signals.values(), strict=True):
            row[:] = given
        return cls(tuple(signals), rows)

    def __getitem__(self, name: str) -> FloatArray:
        return self.rows[self._at[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class SparseSignals(Mapping[str, FloatArray]):
    """Signals by name over c tools, (c,) float32 each, made when they are asked for.

    Args:
        table: of the k tools that were judged signal by signal; the others have 0.
        best: (k,) which ones those are.
        size: c.
        same: what is the same for every tool.
        whole: (c,) what every tool has; wins over a row of the same name.
    """

    __slots__ = ("_at", "_best", "_made", "_names", "_place", "_same", "_size", "_table", "_whole")

    def __init__(
        self,
        table: SignalTable,
        best: IntArray,
        size: int,
        same: Mapping[str, float],
        whole: Mapping[str, FloatArray],
    ) -> None:
        self._table = table
        self._best = best
        self._size = size
        self._same = same
        self._whole = whole
        self._names = tuple(dict.fromkeys((*table, *same, *whole)))
        self._place: dict[int, int] | None = None
        self._at: tuple[int, dict[str, float]] = (-1, {})  # asked last, and what it had
        self._made: dict[str, FloatArray] = {}

    def at(self, position: int) -> dict[str, float]:
        """Every signal of one tool."""
        asked, known = self._at
        if asked == position:
            return known.copy()
        if self._place is None:
            self._place = {spot: i for i, spot in enumerate(self._best.tolist())}
        place = self._place.get(position)
        if place is None:
            found = dict.fromkeys(self._table, 0.0)
        else:
            column: list[float] = self._table.rows[:, place].tolist()
            found = dict(zip(self._table, column, strict=True))
        found |= self._same
        found |= {name: float(values[position]) for name, values in self._whole.items()}
        self._at = position, found
        return found.copy()

    def __getitem__(self, name: str) -> FloatArray:
        if name in self._whole:
            return self._whole[name]
        made = self._made.get(name)
        if made is None:
            if name in self._same:
                made = np.full(self._size, self._same[name], np.float32)
            else:
                made = np.zeros(self._size, np.float32)
                made[self._best] = self._table[name]
            self._made[name] = made
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
