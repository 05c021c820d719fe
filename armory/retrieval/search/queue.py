"""How many searches run at once, whose turn it is, and when no more wait.

Owns: `SearchQueue`. A caller who asks much waits for itself: free room goes round the callers.
Never imports what searches.
"""

from __future__ import annotations

import asyncio
from collections import deque

from armory.errors import RateLimited

LEAST_COST = 500
"""The least cost of a search, in characters."""
ROOM = 32_000
"""Characters that are searched for at a time; more would only slow all of them down."""
CALLERS_ROOM = 16_000
"""The same for one caller, so that others find room at once."""
_RETRY_AFTER_S = 1.0


class SearchQueue:
    """Admits searches by their cost, round robin over callers; refuses those beyond its limits.

    Args:
        most: searches that run or wait, in all.
        per_caller: the same for one caller.
    """

    def __init__(self, most: int, per_caller: int) -> None:
        self._most = most
        self._per_caller = per_caller
        self._running: dict[str, int] = {}
        self._total = 0
        self._held: dict[str, int] = {}
        self._all = 0
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    async def enter(self, caller: str, cost: int) -> int:
        """Wait for room; returns the cost, to be given to `leave`.

        Raises:
            RateLimited: too many searches of this caller, or in all, run or wait already.
        """
        held = self._held.get(caller, 0)
        if held >= self._per_caller or self._all >= self._most:
            mine = held >= self._per_caller
            key = "searches_per_principal" if mine else "searches"
            whose = "your" if mine else "the gateway's"
            raise RateLimited(
                f"{held if mine else self._all} of {whose} searches are still under way "
                f"(server.limits.{key}); try again in a second",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._held[caller] = held + 1
        self._all += 1
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
                self._let_go(caller)
            else:
                self.leave(caller, cost)
            raise
        return cost

    def leave(self, caller: str, cost: int, rest_s: float = 0.0) -> None:
        """A search has ended; for its caller alone, its room stays taken for `rest_s`.

        Args:
            caller: who asked.
            cost: what `enter` gave.
            rest_s: seconds until the caller may use that room again.
        """
        self._total -= cost
        self._let_go(caller)
        if rest_s:
            asyncio.get_running_loop().call_later(rest_s, self._give_back, caller, cost)
            self._admit()
        else:
            self._give_back(caller, cost)

    def _give_back(self, caller: str, cost: int) -> None:
        left = self._running[caller] - cost
        if left:
            self._running[caller] = left
        else:
            del self._running[caller]
        if self._waiting:
            self._admit()

    def _let_go(self, caller: str) -> None:
        self._all -= 1
        held = self._held[caller] - 1
        if held:
            self._held[caller] = held
        else:
            del self._held[caller]

    def _begin(self, caller: str, cost: int) -> None:
        self._running[caller] = self._running.get(caller, 0) + cost
        self._total += cost

    def _fits(self, caller: str, cost: int) -> bool:
        mine = self._running.get(caller, 0)
        return (not mine or mine + cost <= CALLERS_ROOM) and (
            not self._total or self._total + cost <= ROOM
        )

    def _forget(self, caller: str, turn: asyncio.Future[None]) -> None:
        mine = self._waiting.get(caller)
        if mine is not None:
            rest = deque(entry for entry in mine if entry[1] is not turn)
            if rest:
                self._waiting[caller] = rest
            else:
                del self._waiting[caller]

    def _admit(self) -> None:
        """Give free room to those who wait, one search a caller and round."""
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
