"""Attributes a call to the query that led to it: recent queries of callers, until they call a tool.

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
class _Asked:
    text: str | None  # None: there were several
    found: frozenset[str]
    at: float


class QueryAttribution:
    """Queries of the last minutes, by legacy session, or else by principal.

    Args:
        follows_s: so long after a query a call may still have come of it.
        alone: whether every query comes here. Of several replicas none knows which was a caller's
            latest, but that of a session.
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
        self._asked: TTLCache[str, deque[_Asked]] = TTLCache(
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
            texts: of the query. Of several intents nobody knows which one led to a call, so only
                that there were some is remembered.
            found: exposed names of the matches.
            session: id of its legacy session.
        """
        if NO_LEARNING in principal.scopes:
            return
        key = session or principal.key
        kept = self._asked.get(key) or deque[_Asked](maxlen=_EACH)
        text = texts[0] if len(texts) == 1 else None
        kept.append(_Asked(text, frozenset(found), self._clock()))
        self._asked[key] = kept

    def led_to(
        self, principal: Principal, tool: str, session: str | None = None, *, searched: bool = False
    ) -> str | None:
        """The latest query that can have led to a call; None: there is none, or it had several
        intents.

        Args:
            principal: who calls.
            tool: exposed name.
            session: id of its legacy session.
            searched: the call came by way of searching (`call_tool`); then the latest query counts
                whether or not the tool was among its matches, where it is known.
        """
        if not self._asked.currsize or NO_LEARNING in principal.scopes:
            return None
        since = self._clock() - self._follows_s
        for key in (session, principal.key):
            whatever = searched and (self._alone or key == session)
            for asked in reversed(self._asked.get(key) or () if key else ()):
                if asked.at >= since and (whatever or tool in asked.found):
                    return asked.text
        return None


def _size(asked: deque[_Asked]) -> int:
    sizes = (sys.getsizeof(one.text) + sys.getsizeof(one.found) for one in asked)
    return _CALLER_BYTES + sum(sizes)
