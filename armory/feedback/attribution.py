"""Attributes a call to the query that led to it: recent queries of callers are kept for a while.

Owns: remembering queries for minutes, and matching a call with one. In memory, bounded, and there
only where `tool_rag.learn_from_use` is on. Never imports a transport or retrieval.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cachetools import TTLCache

from armory.domain.principal import Principal

NO_LEARNING = "no-learning"
"""Scope of callers from whom nothing is learned."""
FOLLOWS_S = 600.0
_KEPT_BYTES = 32 << 20
"""Largest size of all that is remembered. A usual caller takes a few KiB, one with long queries
60."""
_CALLER_BYTES = 700
_EACH = 4


@dataclass(frozen=True, slots=True)
class _Query:
    text: str | None  # None: there were several
    matches: frozenset[str]
    at: float


class QueryAttribution:
    """Queries of the last minutes, by legacy session, or else by principal.

    Args:
        follows_s: how long after a query a call may still be attributed to it.
        alone: whether all queries come to this process. With several replicas none of them knows a
            caller's latest query, except within a session.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        *,
        follows_s: float = FOLLOWS_S,
        alone: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._follows_s = follows_s
        self._alone = alone
        self._clock = clock
        self._queries: TTLCache[str, deque[_Query]] = TTLCache(
            _KEPT_BYTES, follows_s, clock, getsizeof=_size
        )

    def record_query(
        self,
        principal: Principal,
        texts: tuple[str, ...],
        found: Iterable[str],
        session: str | None = None,
    ) -> None:
        """Record the query of a listing, of `search_tools` or of a REST search.

        Args:
            principal: who asked.
            texts: those of the query. If there are several, it is unknown which one leads to a
                call, so only the fact that there were several is remembered.
            found: exposed names of the matches.
            session: id of its legacy session.
        """
        if NO_LEARNING in principal.scopes:
            return
        key = session or principal.key
        kept = self._queries.get(key) or deque[_Query](maxlen=_EACH)
        text = texts[0] if len(texts) == 1 else None
        kept.append(_Query(text, frozenset(found), self._clock()))
        self._queries[key] = kept

    def led_to(
        self, principal: Principal, tool: str, session: str | None = None, *, searched: bool = False
    ) -> str | None:
        """The latest query that can have led to a call; None: there is none, or it had several
        intents.

        Args:
            principal: who calls.
            tool: exposed name.
            session: id of its legacy session.
            searched: whether the call was made through `call_tool`; then the latest query counts
                even if the tool was not among its matches, provided that it is known which query
                was the latest.
        """
        if not self._queries.currsize or NO_LEARNING in principal.scopes:
            return None
        since = self._clock() - self._follows_s
        for key in (session, principal.key):
            whatever = searched and (self._alone or key == session)
            for query in reversed(self._queries.get(key) or () if key else ()):
                if query.at >= since and (whatever or tool in query.matches):
                    return query.text
        return None


def _size(queries: deque[_Query]) -> int:
    sizes = (sys.getsizeof(one.text) + sys.getsizeof(one.matches) for one in queries)
    return _CALLER_BYTES + sum(sizes)
