"""Adapts an embedder of the caller: its vectors are checked and normalised.

Owns: `checked`. Never imports the memory, a model or an index.
"""

from __future__ import annotations

from collections.abc import Sequence

from armory.retrieval.embedders.base import unit_rows
from armory.retrieval.ports import ClauseReader, Embedder, FloatArray


def checked(embedder: Embedder | None) -> Embedder | None:
    """The same embedder; one that is not Armory's own may give lists, and vectors of any length."""
    return embedder if embedder is None or isinstance(embedder, ClauseReader) else _Own(embedder)


class _Own:
    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    @property
    def identity(self) -> str:
        """The inner embedder's."""
        return self._inner.identity

    @property
    def dimension(self) -> int:
        """The inner embedder's."""
        return self._inner.dimension

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows; `BackendError` where it gave no such number of vectors."""
        return self._unit(await self._inner.embed_documents(texts), len(texts))

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows; likewise."""
        return self._unit(await self._inner.embed_queries(texts), len(texts))

    async def aclose(self) -> None:
        """Close the inner embedder."""
        await self._inner.aclose()

    def _unit(self, vectors: FloatArray, count: int) -> FloatArray:
        return unit_rows(vectors, count, self.dimension, self.identity)
