"""Sorting scores of many tools quickly, and no more of them than are looked at.

Owns: `descending`, `Order`. Never imports anything of Armory but array types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.ports import IntArray

_MAGNITUDE = np.int32(0x7FFFFFFF)
_BITS = 32
_POSITION = (1 << _BITS) - 1


def descending(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Positions of the values, greatest first, ties in order of position. No NaN.

    The same as a stable sort of the negated values, which costs three to nine times as much: the
    bits of a float count as an integer does, and with the position behind them all integers differ,
    so that they may be sorted by what is quick and not stable.
    """
    bits = np.subtract(np.float32(0.0), values, dtype=np.float32).view(np.int32)
    keys = bits >> 31  # of negative floats the magnitude bits count downwards
    keys &= _MAGNITUDE
    keys ^= bits
    placed = keys.astype(np.int64)
    placed <<= _BITS
    placed |= np.arange(len(values))
    placed.sort()
    placed &= _POSITION
    return placed


class Order:
    """Positions of candidates, best first: the best at once, all once they are asked for.

    Behaves as the array of all of them.

    Args:
        best: (k,) the first of them.
        size: r, how many there are.
        every: gives all (r,), which begin with `best`; asked at most once.
    """

    __slots__ = ("_every", "_size", "_whole", "best")

    def __init__(self, best: IntArray, size: int, every: Callable[[], IntArray]) -> None:
        self.best = best
        self._size = size
        self._every = every
        self._whole = best if size == len(best) else None

    @classmethod
    def of(cls, positions: IntArray | Order) -> Order:
        """Of positions that are sorted already."""
        if isinstance(positions, Order):
            return positions
        return cls(positions, len(positions), lambda: positions)

    @property
    def whole(self) -> IntArray:
        """(r,) positions of all candidates, best first."""
        if self._whole is None:
            self._whole = self._every()
        return self._whole

    def among(self, may: NDArray[np.bool_], enough: int | None = None) -> IntArray:
        """Those that `may` allows, best first.

        Args:
            may: (c,) of each candidate.
            enough: the caller looks at no more than so many; None: at all.
        """
        best = self.best[may[self.best]]
        if len(best) == np.count_nonzero(may) or (enough is not None and len(best) >= enough):
            return best
        return self.whole[may[self.whole]]

    def tolist(self) -> list[int]:
        """Positions of all candidates, best first."""
        return self.whole.tolist()

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> IntArray:
        return np.array(self.whole, dtype) if copy else np.asarray(self.whole, dtype)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice | IntArray | NDArray[np.bool_]) -> IntArray: ...
    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice) and at.start is None and at.step is None:
            stop = at.stop
            if isinstance(stop, int) and 0 <= stop <= len(self.best):
                return self.best[:stop]
        return self.whole[at]
