"""Where two states of a list differ.

Owns: `differing`. Never imports anything of Armory.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np


def differing(now: Sequence[object], before: Sequence[object]) -> list[int] | None:
    """The ascending positions whose object is another one; None where the lengths differ."""
    if len(now) != len(before):
        return None
    same = np.fromiter(map(operator.is_, now, before), np.bool_, len(now))
    found: list[int] = np.flatnonzero(~same).tolist()
    return found
