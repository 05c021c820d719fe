"""Sorting scores of many tools quickly.

Owns: `descending`. Never imports anything of Armory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def descending(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Positions of the values, greatest first, ties in order of position.

    The same as a stable sort of the negated values, which costs six times as much where (nearly)
    no values are equal.
    """
    order = np.argsort(-values)
    ranked = values[order]
    if (ranked[1:] == ranked[:-1]).any():
        return np.argsort(-values, kind="stable")
    return order
