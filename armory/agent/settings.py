"""What one run of the retrieval agent may cost, as plain values.

Owns: `AgentLimits` and its defaults. Never imports anything of the agent.
"""

from __future__ import annotations

from dataclasses import dataclass

from armory.errors import InvalidRequest

MAX_ITERATIONS = 5


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """What one run may cost.

    Attributes:
        max_iterations: cycles of Thought, Action and Observation, 1 to 5. One more turn may follow
            for the Final Answer alone.
        time_s: wall time of the whole run.
        tokens: prompt and completion tokens of the whole run.
        answer_tokens: of one turn, thinking included.
        top_k: hits of a search that names no `top_k`.
    """

    max_iterations: int = MAX_ITERATIONS
    time_s: float = 120.0
    tokens: int = 60_000
    answer_tokens: int = 4_096
    top_k: int = 5

    def __post_init__(self) -> None:
        if not 1 <= self.max_iterations <= MAX_ITERATIONS:
            raise InvalidRequest(
                f"max_iterations is {self.max_iterations}; it must be 1 to {MAX_ITERATIONS}",
                parameter="max_iterations",
            )
