"""The dense half of a search: the query's vectors, the vector store, and patience with both.

Owns: time limits, what is said when the embedder or the store fails, how long it is then left in
peace. Never imports a concrete embedder or index, rankers or the retriever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from armory.errors import BackendError
from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.evidence import LegText, to_dense
from armory.retrieval.fallback import Backoff
from armory.retrieval.ports import FloatArray, Hits, IntArray
from armory.retrieval.snapshot import Snapshot

_WAITING = "lexical only: the embedder or the vector store failed a moment ago"


class DenseSide:
    """Asks embedder and store; a failure costs a query its vectors and no more.

    Args:
        embedder: None: there is no dense side.
        timeout_s: how long each of the two may take.
        candidates: best tools by cosine that an index which does not score everything returns.
    """

    def __init__(self, embedder: CachedEmbedder | None, timeout_s: float, candidates: int) -> None:
        self.embedder = embedder
        self._timeout_s = timeout_s
        self._candidates = candidates
        self._patience = Backoff()

    @property
    def identity(self) -> str:
        """Of the embedder; "" without one."""
        return self.embedder.identity if self.embedder is not None else ""

    @property
    def lost(self) -> bool:
        """Whether it failed so often that what was stored may be gone."""
        return self._patience.lost

    def succeeded(self) -> None:
        """All is well again."""
        self._patience.succeeded()

    async def one(self, text: str) -> FloatArray | None:
        """(d,) vector of a query text; None where there is none."""
        if self.embedder is None:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                return (await self.embedder.embed_queries([text]))[0]
        except (BackendError, TimeoutError):
            return None

    async def vectors(
        self, snapshot: Snapshot, legs: Sequence[LegText]
    ) -> tuple[FloatArray | None, str]:
        """(m, d) vectors of the legs, or None and why, "" where nothing was lost."""
        if self.embedder is None or snapshot.view is None:
            return None, ""
        if self._patience.waiting:
            return None, _WAITING
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self.embedder.embed_passages([leg.passage for leg in legs]), ""
        except (BackendError, TimeoutError) as error:
            return None, self._patience.failed(error, self._timeout_s)

    async def hits(
        self, snapshot: Snapshot, vectors: FloatArray, allowed: IntArray | None, also: IntArray
    ) -> tuple[Hits | None, str]:
        """What the store finds within `allowed`, with the cosines of `also`; or None and why."""
        assert snapshot.view is not None
        inside, extra = to_dense(snapshot, allowed), to_dense(snapshot, also)
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await snapshot.view.search(vectors, self._candidates, inside, extra)
        except (BackendError, TimeoutError) as error:
            return None, self._patience.failed(error, self._timeout_s)
        self._patience.succeeded()
        return found, ""
