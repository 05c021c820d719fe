"""A fake embedder: fast, deterministic, without a model; texts with common words are close to each
other.

Owns: `HashingEmbedder`. Never imports a model.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from armory.retrieval.ports import FloatArray

_WORD = re.compile(r"\w+")


class HashingEmbedder:
    """Words and their trigrams hashed into d buckets.

    Attributes:
        documents: how many document texts went through.
        queries: how many query texts went through.
        failure: raised by the next calls while set; tests break and mend the embedder with it.
    """

    def __init__(self, dimension: int = 64, identity: str = "hashing-1") -> None:
        self._dimension = dimension
        self._identity = identity
        self.documents = 0
        self.queries = 0
        self.failure: Exception | None = None

    @property
    def identity(self) -> str:
        """As given."""
        return self._identity

    @property
    def dimension(self) -> int:
        """As given."""
        return self._dimension

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        if self.failure is not None:
            raise self.failure
        self.documents += len(texts)
        return self._embed(texts)

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        if self.failure is not None:
            raise self.failure
        self.queries += len(texts)
        return self._embed(texts)

    async def aclose(self) -> None:
        """Nothing to close."""

    def _embed(self, texts: Sequence[str]) -> FloatArray:
        found = np.full((len(texts), self._dimension), 1e-3, np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in _WORD.findall(text.lower()):
                grams = [word, *(word[i : i + 3] for i in range(len(word) - 2))]
                for gram in grams:
                    bucket = zlib.crc32(gram.encode()) % (2 * self._dimension)
                    row[bucket // 2] += 1.0 if bucket % 2 else -1.0
        return found / np.linalg.norm(found, axis=1, keepdims=True)
