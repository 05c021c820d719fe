"""The deadline for everything a process does while it shuts down.

Owns: that one deadline and the time left until it. A step that waits for a silent database must
leave time for the steps after it. Never imports anything of Armory.
"""

from __future__ import annotations

import math
import time
from contextvars import ContextVar

END_S = 10.0
"""Longest shutdown once no call is in flight. Whatever supervises the process kills it soon after:
15 seconds, as documented."""
_LEAST_S = 0.5
"""What a step gets when nothing is left of that."""
_until: ContextVar[float] = ContextVar("when the end is to be over", default=math.inf)


def begin() -> None:
    """Start the shutdown deadline: `END_S` from now, for this task and the tasks that it starts."""
    _until.set(time.monotonic() + END_S)


def at_most(own_s: float) -> float:
    """How many seconds a shutdown step may wait: `own_s`, or what is left until the deadline."""
    return min(own_s, max(_LEAST_S, _until.get() - time.monotonic()))
