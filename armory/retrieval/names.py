"""The parts that configuration can name: rankers, indexes, embedders.

Owns: the tables, one line a part. Never imports a part: where it lives stands here as text, so that
configuration and command line know the names without loading any of them.

A program may add parts of its own to a table before it opens a gateway or a retriever.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from armory.errors import ConfigError

RANKERS: dict[str, str] = {
    "relevance": "armory.retrieval.rankers.relevance:RelevanceRanker",
    "hybrid": "armory.retrieval.rankers.formulas:HybridRanker",
    "semantic": "armory.retrieval.rankers.formulas:SemanticRanker",
    "lexical": "armory.retrieval.rankers.formulas:LexicalRanker",
    "multi_factor": "armory.retrieval.rankers.multi_factor:MultiFactorRanker",
}
"""For `tool_rag.ranker` and queries: a class without arguments (`rankers.base.Ranker`)."""

INDEXES: dict[str, str] = {
    "exact": "armory.retrieval.indexes.exact:open_index",
    "faiss": "armory.retrieval.indexes.faiss:open_index",
    "qdrant": "armory.retrieval.indexes.qdrant:open_index",
}
"""For `tool_rag.index`: a function (embedder, options) -> `ports.VectorIndex`."""

EMBEDDERS: dict[str, str] = {
    "embedded": "armory.retrieval.embedders.embedded:open_embedder",
    "openai": "armory.retrieval.embedders.openai:open_embedder",
    "fastembed": "armory.retrieval.embedders.fastembed:open_embedder",
}
"""For `tool_rag.embedding_provider`: a function (model, options) -> `ports.Embedder`."""


def part(table: Mapping[str, str], name: str, what: str, path: str) -> Any:
    """What stands behind a name.

    Args:
        table: one of this file's.
        name: a key of it.
        what: what it is, for the message.
        path: where configuration names it, for the message.

    Raises:
        ConfigError: there is no such name.
    """
    place = table.get(name)
    if place is None:
        raise ConfigError(f"unknown {what} {name!r}; one of {', '.join(table)}", path=path)
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
