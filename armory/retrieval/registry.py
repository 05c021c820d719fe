"""Names to parts: which embedder, index and rankers a configuration means.

Owns: the tables, putting a retriever together. A new vector store is one file and one line here.
Adapters are imported when they are asked for. Never imports configuration; plain values come in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from armory.errors import ConfigError
from armory.retrieval.document import Strategy
from armory.retrieval.embedders.cache import ByteStore, CachedEmbedder, DocumentCache
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.indexer import QueryGenerator
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.ports import Embedder, Ranker, UsageSource, UseMemory, VectorIndex
from armory.retrieval.rankers.formulas import HybridRanker, LexicalRanker, SemanticRanker
from armory.retrieval.rankers.multi_factor import MultiFactorRanker
from armory.retrieval.rankers.relevance import RelevanceRanker
from armory.retrieval.relevance import read_calibrations
from armory.retrieval.retriever import Retriever
from armory.retrieval.selection import RetrieverSettings

Provider = Literal["auto", "embedded", "openai", "fastembed"]
IndexName = Literal["exact", "faiss", "qdrant"]
EMBEDDED = "embedded"
NO_EMBEDDER = "none"
VECTORS_FILE = "vectors.db"
"""In the cache folder: vectors of documents, and generated queries."""


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


def make_rankers() -> dict[str, Ranker]:
    """Every ranker, by the name that configuration and queries use."""
    rankers: list[Ranker] = [
        RelevanceRanker(), HybridRanker(), SemanticRanker(), LexicalRanker(), MultiFactorRanker(),
    ]  # fmt: skip
    return {ranker.name: ranker for ranker in rankers}


def load_calibration(path: Path | str | None) -> Mapping[str, Any] | None:
    """The calibration that `armory tune` wrote; None where there is none.

    Raises:
        ConfigError: the file is there and cannot be used.
    """
    if path is None or not Path(path).is_file():
        return None
    try:
        return read_calibrations(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """A retriever in plain values.

    Attributes:
        model: see `make_embedder`.
        provider: see `make_embedder`.
        strategy: what of a tool is embedded.
        index: see `make_index`.
        openai: for models over HTTP.
        qdrant: for the index `qdrant`.
        settings: ranker, threshold, caps.
        rerank: name of a cross-encoder; None: none.
        query_cache: query vectors kept in memory; 0: none.
        cache_dir: folder of document vectors and downloaded models; None: memory only.
    """

    model: str = EMBEDDED
    provider: Provider = "auto"
    strategy: Strategy = "description_params"
    index: str = "exact"
    openai: OpenAISettings = field(default_factory=OpenAISettings)
    qdrant: QdrantSettings = field(default_factory=QdrantSettings)
    settings: RetrieverSettings = field(default_factory=RetrieverSettings)
    rerank: str | None = None
    query_cache: int = 10_000
    cache_dir: str | None = None


def build_retriever(
    options: RetrievalOptions | None = None,
    *,
    store: ByteStore | None = None,
    generator: QueryGenerator | None = None,
    usage: UsageSource | None = None,
    uses: UseMemory | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Retriever:
    """Put a retriever together. Nothing is loaded or connected yet.

    Args:
        options: plain values; default: everything embedded.
        store: shared cache of query vectors (Redis).
        generator: writes synthetic queries.
        usage: statistics of calls.
        uses: past queries that led to tools.
        on_progress: called with (texts embedded, texts to embed).

    Raises:
        ConfigError: a part is not installed or does not fit.
    """
    options = options or RetrievalOptions()
    folder = options.cache_dir
    models = None if folder is None else str(Path(folder) / "models")
    embedder = make_embedder(
        options.model, options.provider, openai=options.openai, cache_dir=models
    )
    index = make_index(options.index, embedder, qdrant=options.qdrant)
    if embedder is not None:
        embedder = CachedEmbedder(embedder, size=options.query_cache, store=store)
    reranker = None
    if options.rerank is not None:
        from armory.retrieval.rerank import CrossEncoder

        reranker = CrossEncoder(options.rerank)
    path = None if folder is None else Path(folder) / VECTORS_FILE
    return Retriever(
        embedder,
        index,
        make_rankers(),
        options.settings,
        strategy=options.strategy,
        cache=DocumentCache(path),
        generator=generator,
        usage=usage,
        uses=uses,
        reranker=reranker,
        on_progress=on_progress,
    )
