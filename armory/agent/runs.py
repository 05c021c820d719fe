"""Limits on concurrent runs of the retrieval agent, each of which keeps the model busy for long.

Owns: `Runs`. Never imports the loop.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from armory.domain.limits import Holdings
from armory.errors import RateLimited

MAX_RUNS, MAX_RUNS_OF_CALLER = 64, 32
_RETRY_AFTER_S = 5.0


class Runs:
    """Counts the runs that are under way; refuses those beyond its limits.

    A caller may have fewer than all together, so that others get their turn at a slow model.
    """

    def __init__(self) -> None:
        self._held: Holdings[str] = Holdings()

    @contextmanager
    def run(self, caller: str) -> Generator[None]:
        """Count one run of a caller for the duration of the block.

        Raises:
            RateLimited: the caller, or all callers together, have too many runs under way.
        """
        own, total = self._held[caller], self._held.total()
        if own >= MAX_RUNS_OF_CALLER or total >= MAX_RUNS:
            whose = f"{own} of your" if own >= MAX_RUNS_OF_CALLER else f"{total} of the gateway's"
            raise RateLimited(
                f"{whose} runs of the retrieval agent are still under way; try again later, or "
                "search without it",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._held.take(caller)
        try:
            yield
        finally:
            self._held.give_back(caller)
