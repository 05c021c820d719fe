"""A threshold for the greatest of many scores, found without sorting them.

Owns: `cutoff`. Pure NumPy; never imports anything of Armory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Groups for each of the best values; with so many, few of those values share a group.
GROUPS = 4


def cutoff(values: NDArray[np.float32], depth: int) -> Any:
    """A value that at least `depth` of the last axis reach, and few others do.

    It is looked for among the maxima of groups, which are far fewer than the values.

    Args:
        values: (..., n), n > depth.
        depth: how many, >= 1.

    Returns:
        (...,) float32; a number for one axis.
    """
    groups = GROUPS * depth
    count = values.shape[-1]
    if count >= 2 * groups:
        whole = values[..., : count // groups * groups]
        values = whole.reshape(*values.shape[:-1], -1, groups).max(-2)
    place = values.shape[-1] - depth
    return np.partition(values, place, axis=-1)[..., place]
