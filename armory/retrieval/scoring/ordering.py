"""Sorting scores of many tools quickly.

Owns: `descending`. Never imports anything of Armory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MAGNITUDE = np.int32(0x7FFFFFFF)


def descending(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Positions of the values, greatest first, ties in order of position. No NaN, below 2**32 long.

    The same as a stable sort of the negated values, which costs about ten times as much: the bits
    of a float and its position make one integer, and integers sort fast without being stable.
    """
    bits = np.subtract(np.float32(0.0), values, dtype=np.float32).view(np.int32)
    flipped = bits >> 31  # of negative floats the magnitude bits count downwards
    flipped &= _MAGNITUDE
    flipped ^= bits
    keys = flipped.astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(values), dtype=np.int64)
    keys.sort()
    keys &= np.int64(0xFFFFFFFF)
    return keys
