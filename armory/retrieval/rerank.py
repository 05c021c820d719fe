"""Optional second look at the best few: a cross-encoder reads query and tool together.

Owns: the `Reranker` Protocol, the fastembed adapter (extra `rerank`), merging its order. Never
imports indexes or rankers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import structlog

from armory.errors import BackendError, ConfigError
from armory.retrieval.ports import FloatArray, IntArray

_log = structlog.get_logger(__name__)


class Reranker(Protocol):
    """Scores texts against a query; higher is better, any scale."""

    async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) float32.

        Raises:
            BackendError: the model failed.
        """
        ...


class CrossEncoder:
    """A fastembed cross-encoder by name, for example `Xenova/ms-marco-MiniLM-L-6-v2`.

    Args:
        name: the model.
        path: a folder that holds it; None: downloaded on first use.

    Raises:
        ConfigError: the extra is not installed, or the model is unknown.
    """

    def __init__(self, name: str, path: str | None = None) -> None:
        try:
            from fastembed.rerank.cross_encoder import TextCrossEncoder
        except ImportError as error:
            raise ConfigError(
                'tool_rag.rerank needs fastembed: pip install "armory-mcp-gateway[rerank]"',
                path="tool_rag.rerank",
            ) from error
        try:
            self._model: Any = TextCrossEncoder(name, specific_model_path=path, lazy_load=True)
        except ValueError as error:
            raise ConfigError(f"{name!r} is no known cross-encoder: {error}") from error

    async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) float32 scores, in a thread."""
        return await asyncio.to_thread(self._scores, query, texts)

    def _scores(self, query: str, texts: Sequence[str]) -> FloatArray:
        try:
            found = list(self._model.rerank(query, list(texts)))
        except Exception as error:
            raise BackendError(f"the cross-encoder failed: {error}") from error
        return np.array(found, np.float32)


async def reranked(
    reranker: Reranker, queries: Sequence[str], texts: Sequence[str], order: IntArray
) -> IntArray:
    """The order with its first `len(texts)` positions sorted by the cross-encoder.

    Several queries: a tool's best. Scores and threshold stay those of the ranker. A failing model
    leaves the order as it is, logged.
    """
    if not texts:
        return order
    try:
        found = np.stack([await reranker.scores(query, texts) for query in queries]).max(0)
    except BackendError as error:
        _log.warning("reranking_failed", error=str(error))
        return order
    first = np.argsort(-found, kind="stable")
    return np.concatenate([order[: len(texts)][first], order[len(texts) :]])
