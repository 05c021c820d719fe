"""Caches query vectors in memory and in a shared store; simultaneous equal queries are embedded
once.

Owns: the wrapper that caches and coalesces query embeddings. Never imports a model or an index.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from cachetools import LRUCache

from armory.errors import BackendError
from armory.logger import Logger
from armory.retrieval.embedders.base import text_hash, vector_of
from armory.retrieval.ports import ClauseReader, Embedder, FloatArray, LanguageBound, Passage
from armory.tasks import Tasks, shielded

_log = Logger(__name__)
_STORE_S = 0.05
"""How long a search waits for the shared store, which saves a request at best."""
_RETRY_S = 5.0
"""How long a store that failed is not asked again."""
_STORED_S = 86_400.0
_KEPT_CHARS = 500
"""Longest text that is itself the key of its vector in memory; of a longer text the digest is."""


class ByteStore(Protocol):
    """A small shared key-value store (Redis) seen from the query cache."""

    async def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """Values in the order of the keys."""
        ...

    async def set_many(self, values: Mapping[str, bytes], ttl_s: float) -> None:
        """Store values for a while."""
        ...


class CachedEmbedder:
    """Caches the query vectors of another embedder; the same text asked twice at once is embedded
    once.

    Args:
        inner: the embedder.
        size: query vectors kept in memory; 0 keeps none (concurrent ones still share).
        store: shared store beside the memory; its failures are logged and cost only the cache, and
            it is written when the vectors are in use already.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        size: int = 10_000,
        store: ByteStore | None = None,
    ) -> None:
        self.inner = inner
        self._reader = inner if isinstance(inner, ClauseReader) else None
        self._bound = inner if isinstance(inner, LanguageBound) else None
        self._kept: LRUCache[Passage | str, FloatArray] = LRUCache(max(size, 1))
        self._size = size
        self._store = store
        self._again_at = 0.0
        self._running: dict[Passage, asyncio.Future[FloatArray]] = {}
        self._tasks = Tasks()

    @property
    def identity(self) -> str:
        """The inner embedder's."""
        return self.inner.identity

    @property
    def dimension(self) -> int:
        """The inner embedder's."""
        return self.inner.dimension

    @property
    def english_only(self) -> bool:
        """Whether the inner embedder reads only English."""
        return self._bound is not None and self._bound.english_only

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """The inner embedder's; documents have a cache of their own."""
        return await self.inner.embed_documents(texts)

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows, from the cache where known."""
        return await self.embed_passages([Passage(text) for text in texts])

    async def embed_passages(self, passages: Sequence[Passage]) -> FloatArray:
        """(n, d) float32 unit rows, of whole queries and of parts of them.

        A part is read in its context where the inner embedder can (`ports.ClauseReader`), else by
        itself.
        """
        if not passages:
            return np.zeros((0, self.dimension), np.float32)
        if self._reader is None:
            passages = [p if p.span is None else Passage(p.words) for p in passages]
        waiting: dict[Passage, asyncio.Future[FloatArray]] = {}
        known: dict[Passage, FloatArray] = {}
        fresh: list[Passage] = []
        for passage in dict.fromkeys(passages):
            vector = self._kept.get(self._place(passage))
            if vector is not None:
                known[passage] = vector
            elif passage in self._running:
                waiting[passage] = self._running[passage]
            else:
                waiting[passage] = asyncio.get_running_loop().create_future()
                self._running[passage] = waiting[passage]
                fresh.append(passage)
        if fresh:  # in a task of its own: a caller who leaves does not take others' vectors along
            self._tasks.spawn(self._compute(fresh), "embed queries")
        try:
            for passage in waiting:
                known[passage] = await shielded(waiting[passage])
        finally:
            waiting.clear()  # whose errors hold this frame by their traces
        return np.stack([known[passage] for passage in passages])

    async def aclose(self) -> None:
        """Close the inner embedder; running computations are abandoned."""
        await self._tasks.stop()
        await self.inner.aclose()

    async def _compute(self, passages: Sequence[Passage]) -> None:
        new: dict[Passage, FloatArray] = {}
        try:
            found = await self._shared(passages)
            rest = [passage for passage in passages if passage not in found]
            if rest:
                new = await self._embed(rest)
                found |= new
        except BaseException as error:
            for passage in passages:
                _failed(self._running.pop(passage), error)
            if not isinstance(error, Exception):
                raise
        else:
            for passage in passages:
                if self._size:
                    self._kept[self._place(passage)] = found[passage]
                self._running.pop(passage).set_result(found[passage])
            if new:
                await self._share(new)

    async def _embed(self, passages: Sequence[Passage]) -> dict[Passage, FloatArray]:
        """Run the model, once for each text, whole or with its clauses."""
        parts: dict[str, list[tuple[int, int]]] = {}
        for passage in passages:
            if passage.span is not None:
                parts.setdefault(passage.text, []).append(passage.span)
        wanted = [[Passage(t), *(Passage(t, s) for s in spans)] for t, spans in parts.items()]
        runs = [self._reader.embed_clauses(t, s) for t, s in parts.items()] if self._reader else []
        if rest := [p for p in passages if p.span is None and p.text not in parts]:
            wanted.append(rest)
            runs.append(self.inner.embed_queries([passage.text for passage in rest]))
        found: dict[Passage, FloatArray] = {}
        for known, vectors in zip(wanted, await asyncio.gather(*runs), strict=True):
            found |= dict(zip(known, vectors, strict=True))
        return found

    def _place(self, passage: Passage) -> Passage | str:
        """The cache key of a passage; a hash for long texts, which would take more memory than the
        vector.
        """
        return passage if len(passage.text) <= _KEPT_CHARS else self._key(passage)

    def _key(self, passage: Passage) -> str:
        part = "" if passage.span is None else ":{}-{}".format(*passage.span)
        return f"query-vector:{self.identity}:{text_hash(passage.text)}{part}"

    async def _shared(self, passages: Sequence[Passage]) -> dict[Passage, FloatArray]:
        if self._store is None or time.monotonic() < self._again_at:
            return {}
        try:
            async with asyncio.timeout(_STORE_S):
                blobs = await self._store.get_many([self._key(passage) for passage in passages])
        except (BackendError, OSError) as error:  # a TimeoutError is an OSError
            self._lost(error)
            return {}
        pairs = zip(passages, blobs, strict=True)
        vectors = {p: vector_of(b, self.dimension) for p, b in pairs if b is not None}
        return {passage: vector for passage, vector in vectors.items() if vector is not None}

    async def _share(self, vectors: Mapping[Passage, FloatArray]) -> None:
        if self._store is None or time.monotonic() < self._again_at:
            return
        values = {self._key(p): v.astype("<f4").tobytes() for p, v in vectors.items()}
        try:
            await self._store.set_many(values, _STORED_S)
        except (BackendError, OSError) as error:
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        self._again_at = time.monotonic() + _RETRY_S
        _log.warning("query_cache_unavailable", error=str(error) or type(error).__name__)


def _failed(future: asyncio.Future[FloatArray], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)
        future.exception()  # retrieved: nobody may be waiting any more
