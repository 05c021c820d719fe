"""From the block `tool_rag` to a retriever.

Owns: choosing and building embedder, index and rankers. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable

from armory.config import Loaded
from armory.retrieval.retriever import Retriever

Progress = Callable[[int, int], None]


def open_retriever(loaded: Loaded, *, on_progress: Progress | None = None) -> Retriever | None:
    """The retriever that the configuration asks for; None where Tool RAG is off.

    Raises:
        ConfigError: a part is not installed or does not fit.
    """
    return None
