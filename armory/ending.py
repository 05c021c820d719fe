"""How long the end of a process takes at most, all of it together.

Owns: the one deadline of everything that ends after the last call, and what is left of it: where
one waits for a database that is silent, there must be time for who ends after it. Never imports
anything of Armory.
"""

from __future__ import annotations

import math
import time
from contextvars import ContextVar

END_S = 10.0
"""For all that ends once no call is in flight: whoever supervises the process kills it soon after,
15 seconds by the documentation."""
_LEAST_S = 0.5
"""For one of them where nothing is left."""
_until: ContextVar[float] = ContextVar("when the end is to be over", default=math.inf)


def begin() -> None:
    """`END_S` are left from now on, to this task and to what it starts."""
    _until.set(time.monotonic() + END_S)


def at_most(own_s: float) -> float:
    """How many seconds one that ends may wait: `own_s` of its own, or what is left of all."""
    return min(own_s, max(_LEAST_S, _until.get() - time.monotonic()))
