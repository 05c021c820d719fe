"""How many runs of the agent there are at once, each of which keeps the model busy for long.

Owns: `Runs`. Never imports the loop.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from armory.domain.limits import Holdings
from armory.errors import RateLimited

MOST, OF_ONE = 64, 32
_RETRY_AFTER_S = 5.0


class Runs:
    """Runs that are under way; refuses those beyond its limits.

    Args:
        most: runs in all.
        of_one: the same for one caller, so that a slow model has room for others.
    """

    def __init__(self, most: int = MOST, of_one: int = OF_ONE) -> None:
        self._most = most
        self._of_one = of_one
        self._held: Holdings[str] = Holdings()

    @contextmanager
    def one(self, caller: str) -> Generator[None]:
        """One run of a caller is under way.

        Raises:
            RateLimited: too many of this caller, or in all, are.
        """
        own, every = self._held[caller], self._held.total()
        if own >= self._of_one or every >= self._most:
            whose = f"{own} of your" if own >= self._of_one else f"{every} of the gateway's"
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
