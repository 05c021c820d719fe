"""Sorting scores of many tools quickly.

Owns: `descending`. Never imports anything of Armory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MAGNITUDE = np.int32(0x7FFFFFFF)


def descending(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Positions of the values, greatest first, ties in order of position. No NaN.

    The same as a stable sort of the negated values, which costs three to ten times as much: the
    bits of a float count as an integer does, and integers of 16 bits are sorted stably without
    comparing them, first by the lower half, then by the upper one.
    """
    bits = np.subtract(np.float32(0.0), values, dtype=np.float32).view(np.int32)
    keys = bits >> 31  # of negative floats the magnitude bits count downwards
    keys &= _MAGNITUDE
    keys ^= bits
    order = keys.astype(np.uint16).argsort(kind="stable")
    keys >>= 16
    upper = keys.astype(np.int16)[order]
    return order[upper.argsort(kind="stable")]
