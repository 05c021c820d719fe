"""The threads that search: a pool for usual queries, and one of low priority for long ones.

Owns: `SearchThreads`. A long query computes longer than anything else. One at a time and at a lower
priority, long ones take no core from the event loop and no thread from usual queries. Never imports
what searches.
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor

from armory.domain.query import Query
from armory.threads import lower_priority

SHORT_CHARS = 500
"""Queries up to this length are parsed in less time than it takes to hand them to a thread."""
LONG_NICE = 9
"""On a busy core the event loop gets seven times as much of it as the thread of long queries. That
thread gets more than those that embed long texts, since it may hold the interpreter's lock."""
_RESTS, _RESTS_MOST_S = 4, 2.0


class SearchThreads:
    """Threads for usual queries, and one of low priority for long ones."""

    def __init__(self) -> None:
        self.usual: Executor = ThreadPoolExecutor(2, "armory-search", lower_priority)
        self._long = ThreadPoolExecutor(1, "armory-search-long", lower_priority, (LONG_NICE,))

    def of(self, query: Query) -> Executor:
        """The thread pool for this query."""
        return self.usual if is_short(query) else self._long

    def shutdown(self) -> None:
        """Shut down; queued work is dropped."""
        for pool in (self.usual, self._long):
            pool.shutdown(wait=False, cancel_futures=True)


def is_short(query: Query) -> bool:
    """Whether a query has the usual length."""
    return sum(map(len, query.texts)) <= SHORT_CHARS


def rest_after(took_s: float) -> float:
    """Seconds for which the slot of a long query stays taken for its caller, so that a caller uses
    the threads for a fifth of the time at most.
    """
    return min(_RESTS * took_s, _RESTS_MOST_S)
