"""The cross-encoder of fastembed (extra `rerank`).

Owns: `CrossEncoder`. Never imports indexes or rankers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from armory.errors import BackendError, ConfigError
from armory.retrieval.embedders.fastembed import located
from armory.retrieval.ports import FloatArray

_PATH = "tool_rag.rerank"


def library_for(name: str) -> Any:
    """The library's class, where it knows a model of that name; nothing is loaded.

    Raises:
        ConfigError: the extra is not installed, or the model is unknown.
    """
    try:
        from fastembed.rerank.cross_encoder import TextCrossEncoder
    except ImportError as error:
        raise ConfigError(
            'it needs fastembed: pip install "armory-mcp-gateway[rerank]"', path=_PATH
        ) from error
    names = [model["model"] for model in TextCrossEncoder.list_supported_models()]
    if name.lower() not in map(str.lower, names):
        raise ConfigError(
            f"fastembed has no cross-encoder {name!r}; expected one of {', '.join(names)}",
            path=_PATH,
        )
    return TextCrossEncoder


class CrossEncoder:
    """A fastembed cross-encoder by name, for example `Xenova/ms-marco-MiniLM-L-6-v2`.

    Args:
        name: the model.

    Raises:
        ConfigError: the extra is not installed, or the model is unknown.
    """

    def __init__(self, name: str) -> None:
        library = library_for(name)
        try:
            place = located(library.CROSS_ENCODER_REGISTRY, name)
            self._model: Any = library(name, lazy_load=True, **place)
        except ValueError as error:
            raise ConfigError(f"{name!r} cannot be loaded: {error}", path=_PATH) from error

    async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) float32 scores, in a thread."""
        return await asyncio.to_thread(self._scores, query, texts)

    def _scores(self, query: str, texts: Sequence[str]) -> FloatArray:
        try:
            found = list(self._model.rerank(query, list(texts)))
        except Exception as error:
            raise BackendError(f"the cross-encoder failed: {error}") from error
        return np.array(found, np.float32)
