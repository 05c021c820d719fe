"""Names to parts: which embedder, index and rankers a configuration means.

Owns: the tables. A new vector store is one file and one line here. Adapters are imported when they
are asked for. Never imports configuration; plain values come in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from armory.errors import ConfigError
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.ports import Embedder, VectorIndex

Provider = Literal["auto", "embedded", "openai", "fastembed"]
IndexName = Literal["exact", "faiss", "qdrant"]
EMBEDDED = "embedded"
NO_EMBEDDER = "none"


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """`tool_rag.openai`."""

    base_url: str | None = None
    api_key: str | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class QdrantSettings:
    """`tool_rag.qdrant`."""

    url: str | None = None
    path: str | None = None
    api_key: str | None = None
    collection: str = "armory"


def provider_of(
    model: str, provider: Provider = "auto"
) -> Literal["embedded", "openai", "fastembed"]:
    """Who computes a model's vectors: by name unless said."""
    if provider != "auto":
        return provider
    if model == EMBEDDED:
        return "embedded"
    return "openai" if model.startswith("text-embedding-") else "fastembed"


def make_embedder(
    model: str = EMBEDDED,
    provider: Provider = "auto",
    *,
    openai: OpenAISettings | None = None,
    cache_dir: str | None = None,
) -> Embedder | None:
    """The embedder of a model's name; None for `none` (words only).

    Args:
        model: `embedded`, `none`, an OpenAI-compatible model, a fastembed model or a folder.
        provider: who computes it.
        openai: for models over HTTP.
        cache_dir: where downloaded models are kept.

    Raises:
        ConfigError: an extra or a key is missing, or the model is unknown.
    """
    if model == NO_EMBEDDER:
        return None
    chosen = provider_of(model, provider)
    if chosen == "embedded":
        return EmbeddedEmbedder()
    if chosen == "openai":
        from armory.retrieval.embedders.openai import OpenAIEmbedder

        settings = openai or OpenAISettings()
        return OpenAIEmbedder(
            model,
            api_key=settings.api_key,
            base_url=settings.base_url,
            dimensions=settings.dimensions,
        )
    from armory.retrieval.embedders.fastembed import FastembedEmbedder

    return FastembedEmbedder(model, cache_dir=cache_dir)


def make_index(
    name: str, embedder: Embedder | None, *, qdrant: QdrantSettings | None = None
) -> VectorIndex | None:
    """The index of a name for an embedder; None without one.

    Raises:
        ConfigError: unknown name, a missing extra, or a store that cannot be opened.
    """
    if embedder is None:
        return None
    if name == "exact":
        return ExactIndex()
    if name == "faiss":
        from armory.retrieval.indexes.faiss import FaissIndex

        return FaissIndex()
    if name == "qdrant":
        from armory.retrieval.indexes.qdrant import QdrantIndex

        settings = qdrant or QdrantSettings()
        return QdrantIndex(
            embedder.identity,
            embedder.dimension,
            url=settings.url,
            path=settings.path,
            api_key=settings.api_key,
            collection=settings.collection,
        )
    raise ConfigError(
        f"unknown index {name!r}; one of {', '.join(get_args(IndexName))}", path="tool_rag.index"
    )
