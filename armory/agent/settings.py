"""The limits of one agent run, as plain values.

Owns: `AgentLimits` and its defaults. Never imports anything of the agent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, cast

from armory.errors import InvalidRequest

MAX_ITERATIONS = 5


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """The limits of one run.

    Attributes:
        max_iterations: cycles of Thought, Action and Observation, 1 to 5. One more turn may follow
            for the Final Answer alone.
        time_s: wall time of the whole run.
        tokens: prompt and completion tokens of the whole run.
        answer_tokens: of one turn, thinking included.
        top_k: hits of a search that names no `top_k`.

    Raises:
        InvalidRequest: one of them is no number, or out of its bounds.
    """

    max_iterations: int = MAX_ITERATIONS
    time_s: float = 120.0
    tokens: int = 60_000
    answer_tokens: int = 4_096
    top_k: int = 5

    def __post_init__(self) -> None:
        for name, kind, most, expected in (
            ("max_iterations", Integral, MAX_ITERATIONS, f"1 to {MAX_ITERATIONS}"),
            ("tokens", Integral, math.inf, "at least 1"),
            ("answer_tokens", Integral, math.inf, "at least 1"),
            ("top_k", Integral, math.inf, "at least 1"),
            ("time_s", Real, math.inf, "a number of seconds above 0"),
        ):
            value: Any = getattr(self, name)
            fits = not isinstance(value, bool) and isinstance(value, kind)
            if not fits or not 0 < cast("Any", value) <= most:
                raise InvalidRequest(f"{name} is {value!r}; it must be {expected}", parameter=name)
