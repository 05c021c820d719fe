"""Optional reranking of the best few: a cross-encoder reads query and tool together.

Owns: the `Reranker` Protocol, merging its order. Never imports a model, indexes or rankers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from armory.errors import BackendError
from armory.logger import Logger
from armory.retrieval.ports import FloatArray, IntArray

_log = Logger(__name__)


class Reranker(Protocol):
    """Scores texts against a query; higher is better, any scale."""

    async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) float32.

        Raises:
            BackendError: the model failed.
        """
        ...


async def reranked(
    reranker: Reranker, queries: Sequence[str], texts: Sequence[str], order: IntArray
) -> IntArray:
    """The order with its first `len(texts)` positions sorted by the cross-encoder.

    Several queries: a tool's best. Scores and threshold stay those of the ranker. A model that
    fails, or does not score every text, leaves the order as it is, logged.
    """
    if not texts:
        return order
    try:
        found = np.max([await _scores(reranker, query, texts) for query in queries], axis=0)
    except BackendError as error:
        _log.warning("reranking_failed", error=str(error))
        return order
    first = np.argsort(-found, kind="stable")
    return np.concatenate([order[: len(texts)][first], order[len(texts) :]])


async def _scores(reranker: Reranker, query: str, texts: Sequence[str]) -> FloatArray:
    found = np.asarray(await reranker.scores(query, texts), np.float32)
    if found.shape != (len(texts),):
        raise BackendError(f"scores of shape {found.shape} came for {len(texts)} texts")
    return found
