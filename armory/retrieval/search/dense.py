"""The dense half of a search: the query's vectors and the vector store, within deadlines.

Owns: time limits, backing off after failures, and the reason that an answer then gives. Whether a
store answers at all, `watch` knows. Never imports a concrete embedder or index, rankers or the
retriever.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

import numpy as np

from armory.domain.results import NO_LOSS, Loss
from armory.errors import BackendError
from armory.logger import Logger
from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.ports import FloatArray, IntArray, VectorHits
from armory.retrieval.search.scope import Scope
from armory.retrieval.search.threads import is_short
from armory.retrieval.search.watch import StoreWatch
from armory.retrieval.snapshot import Snapshot

_log = Logger(__name__)

BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
#: Failures in a row after which the tools are indexed again.
_LOST = 3
_LEXICAL_ONLY = "lexical only"
_TOO_LONG = Loss.saying("the query is long, and there was no time for its vectors").within(
    _LEXICAL_ONLY
)
_LOST_SOME = "incomplete: the vector store has lost the vectors of {} tools, words find them"


class Backoff:
    """When a failed dense side may be tried again: after 1 to 30 seconds, growing.

    Simultaneous failures count as one: a search that began before the last counted failure says
    nothing new.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._counted_at = -math.inf
        self._retry_at = 0.0
        self._loss = NO_LOSS

    @property
    def waiting(self) -> bool:
        """Whether it is too early to try again."""
        return time.monotonic() < self._retry_at

    @property
    def lost(self) -> bool:
        """Whether it failed so often that the stored vectors may be gone."""
        return self._failures >= _LOST

    @property
    def problem(self) -> Loss:
        """Why it is not tried now; nothing if it is."""
        return self._loss if self.waiting else NO_LOSS

    def failed(self, error: Exception, timeout_s: float, began: float) -> Loss:
        """Count the failure of a search that began at `began`; returns the reason for
        the answer.
        """
        loss = Loss.of(error, f"no answer within {timeout_s} s").within(_LEXICAL_ONLY)
        if began > self._counted_at:
            wait = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
            self._failures += 1
            self._counted_at = time.monotonic()
            self._retry_at = self._counted_at + wait
            self._loss = loss
            _log.warning("dense_search_failed", error=loss.why, retry_in_s=wait)
        return loss

    def succeeded(self) -> None:
        """Reset after a success."""
        self._failures, self._retry_at = 0, 0.0


class DenseSide:
    """Dense search with embedder and vector store; if either fails, the query goes on without
    vectors.

    Args:
        embedder: None: there is no dense side.
        timeout_s: how long each of the two may take.
        candidates: best tools by cosine that an index which does not score everything returns.
        view: gives the view that is served.
        on_loss: called when its store lacks what was put there.
    """

    def __init__(
        self,
        embedder: CachedEmbedder | None,
        timeout_s: float,
        candidates: int,
        view: Callable[[], object],
        on_loss: Callable[[], None],
    ) -> None:
        self.embedder = embedder
        self._timeout_s = timeout_s
        self._candidates = candidates
        self._backoff = Backoff()
        self.watch = StoreWatch(view, self._backoff.succeeded, on_loss)

    @property
    def identity(self) -> str:
        """Of the embedder; "" without one."""
        return self.embedder.identity if self.embedder is not None else ""

    @property
    def lost(self) -> bool:
        """Whether it failed so often that the stored vectors may be gone."""
        return self._backoff.lost

    @property
    def problem(self) -> Loss:
        """Why search is lexical only now; nothing if it is not."""
        away = self.watch.problem
        return away.within(_LEXICAL_ONLY) if away else self._backoff.problem

    def succeeded(self) -> None:
        """Reset after a success."""
        self._backoff.succeeded()

    async def one(self, text: str) -> FloatArray | None:
        """(d,) vector of a query text; None where there is none."""
        if self.embedder is None:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                return (await self.embedder.embed_queries([text]))[0]
        except (BackendError, TimeoutError):
            return None

    async def vectors(self, scope: Scope) -> tuple[FloatArray | None, Loss]:
        """(m, d) vectors of the scope's parts, or None and what was lost."""
        if self.embedder is None or scope.snapshot.view is None:
            return None, NO_LOSS
        if lacking := self.problem:
            return None, lacking
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                passages = [part.passage for part in scope.parts]
                return await self.embedder.embed_passages(passages), NO_LOSS
        except (BackendError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not is_short(scope.query):
                return None, _TOO_LONG  # others' queries are none the slower
            return None, self._backoff.failed(error, self._timeout_s, began)

    async def hits(
        self, scope: Scope, vectors: FloatArray, also: IntArray
    ) -> tuple[VectorHits | None, Loss]:
        """What the store finds in the scope, with the cosines of `also`, or None; and what was
        lost.
        """
        view = scope.snapshot.view
        if view is None:
            return None, NO_LOSS
        if lacking := self.problem:
            return None, lacking
        inside, extra = _in_view(scope.snapshot, scope.allowed), _in_view(scope.snapshot, also)
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                with self.watch.limited(limit):
                    hits = await view.search(vectors, self._candidates, inside, extra)
        except (BackendError, TimeoutError) as error:
            if self.watch.problem:  # which says why, and when it is over
                return None, self.problem
            return None, self._backoff.failed(error, self._timeout_s, began)
        self._backoff.succeeded()
        return hits, Loss.saying(_LOST_SOME.format(hits.lost)) if hits.lost else NO_LOSS


def _in_view(snapshot: Snapshot, rows: IntArray | None) -> IntArray | None:
    """Rows of the snapshot as rows of its view; tools without vectors are left out."""
    if snapshot.dense is None:
        return rows
    inside = snapshot.dense if rows is None else snapshot.dense[rows]
    return np.sort(inside[inside >= 0])
