"""Admission control for searches: how many run and wait, fairly among callers.

Owns: `SearchQueue`. A caller with many searches waits for its own: free slots go round robin over
the callers. Never imports what searches.
"""

from __future__ import annotations

import asyncio
from collections import deque

from armory.domain.limits import Holdings
from armory.errors import RateLimited

LEAST_COST = 500
"""The least cost of a search, in characters."""
ROOM = 32_000
"""Characters that are searched for at a time; more would only slow all of them down."""
CALLERS_ROOM = 16_000
"""The same for one caller, so that there is room for others at once."""
_RETRY_AFTER_S = 1.0


class SearchQueue:
    """Admits searches by their cost, round robin over callers; rejects those beyond its limits.

    Args:
        most: searches that run or wait, in all.
        per_caller: the same for one caller.
    """

    def __init__(self, most: int, per_caller: int) -> None:
        self._most = most
        self._per_caller = per_caller
        self._running: Holdings[str] = Holdings()  # cost of the searches that run, by caller
        self._running_cost = 0
        self._admitted: Holdings[str] = Holdings()  # searches that run or wait, by caller
        self._admitted_count = 0
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    async def enter(self, caller: str, cost: int) -> int:
        """Wait for a slot; returns the cost, which must be given to `leave`.

        Raises:
            RateLimited: too many searches of this caller, or in all, run or wait already.
        """
        own = self._admitted[caller]
        if own >= self._per_caller or self._admitted_count >= self._most:
            mine = own >= self._per_caller
            key = "searches_per_principal" if mine else "searches"
            whose = "your" if mine else "the gateway's"
            raise RateLimited(
                f"{own if mine else self._admitted_count} of {whose} searches are still under way "
                f"(server.limits.{key}); try again in a second",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._admitted.take(caller)
        self._admitted_count += 1
        cost = max(cost, LEAST_COST)
        if not self._waiting and self._fits(caller, cost):
            self._begin(caller, cost)
            return cost
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append((cost, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(caller, turn)
                self._ended(caller)
            else:
                self.leave(caller, cost)
            raise
        return cost

    def leave(self, caller: str, cost: int, rest_s: float = 0.0) -> None:
        """Release the slot of a finished search; for its own caller it stays taken for `rest_s`.

        Args:
            caller: who asked.
            cost: what `enter` gave.
            rest_s: seconds until the caller may use that room again.
        """
        self._running_cost -= cost
        self._ended(caller)
        if rest_s:
            asyncio.get_running_loop().call_later(rest_s, self._give_back, caller, cost)
            self._admit()
        else:
            self._give_back(caller, cost)

    def _give_back(self, caller: str, cost: int) -> None:
        self._running.give_back(caller, cost)
        if self._waiting:
            self._admit()

    def _ended(self, caller: str) -> None:
        """Count a search of a caller as finished."""
        self._admitted_count -= 1
        self._admitted.give_back(caller)

    def _begin(self, caller: str, cost: int) -> None:
        self._running.take(caller, cost)
        self._running_cost += cost

    def _fits(self, caller: str, cost: int) -> bool:
        """Whether there is room: always for a single search, whatever it costs."""
        own, every = self._running[caller], self._running_cost
        return (not own or own + cost <= CALLERS_ROOM) and (not every or every + cost <= ROOM)

    def _forget(self, caller: str, turn: asyncio.Future[None]) -> None:
        mine = self._waiting.get(caller)
        if mine is not None:
            rest = deque(entry for entry in mine if entry[1] is not turn)
            if rest:
                self._waiting[caller] = rest
            else:
                del self._waiting[caller]

    def _admit(self) -> None:
        """Give free slots to waiting searches, one for each caller and round."""
        given = True
        while given:
            given = False
            for caller in list(self._waiting):
                cost, turn = self._waiting[caller][0]
                if not turn.cancelled() and not self._fits(caller, cost):
                    continue
                mine = self._waiting.pop(caller)  # and to the end of the round
                mine.popleft()
                if mine:
                    self._waiting[caller] = mine
                if not turn.cancelled():
                    self._begin(caller, cost)
                    turn.set_result(None)
                given = True
