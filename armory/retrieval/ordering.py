"""Sorting scores of many tools quickly.

Owns: `descending`. Never imports anything of Armory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LEAST = np.int32(-(2**31))


def descending(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Positions of the values, greatest first, ties in order of position. No NaN, below 2**32 long.

    The same as a stable sort of the negated values, which costs about ten times as much: the bits
    of a float and its position make one integer, and integers sort fast without being stable.
    """
    bits = (np.float32(0.0) - values).astype(np.float32).view(np.int32)
    keys = np.where(bits < 0, _LEAST - bits - np.int32(1), bits).astype(np.int64)
    keys = np.sort((keys << 32) | np.arange(len(values), dtype=np.int64))
    return keys & np.int64(0xFFFFFFFF)
