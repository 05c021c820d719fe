"""The registry: from the names in a configuration to embedder, index and rankers.

Owns: opening parts by their names in `names`, putting a retriever together. Adapters are imported
when they are asked for. Never imports configuration; plain values come in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from armory.errors import ConfigError
from armory.retrieval.embedders.cache import ByteStore, CachedEmbedder
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexing
from armory.retrieval.indexing.writing import QueryGenerator
from armory.retrieval.names import EMBEDDERS, INDEXES, RANKERS, part
from armory.retrieval.options import (
    AUTO,
    EMBEDDED,
    INDEX,
    NO_EMBEDDER,
    STRATEGY,
    OpenAISettings,
    PartOptions,
    QdrantSettings,
    Strategy,
)
from armory.retrieval.ports import Embedder, VectorIndex
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.retriever import Retriever
from armory.retrieval.scoring.calibration import read_calibrations
from armory.retrieval.search.candidates import Experience
from armory.retrieval.settings import RetrieverSettings

VECTORS_FILE = "vectors.db"
"""In the cache folder: vectors of documents, and generated queries."""


def provider_of(model: str, provider: str = AUTO) -> str:
    """Who computes a model's vectors: by name unless said."""
    if provider != AUTO:
        return provider
    if model in EMBEDDERS:
        return model
    return "openai" if model.startswith("text-embedding-") else "fastembed"


def make_embedder(
    model: str = EMBEDDED, provider: str = AUTO, options: PartOptions | None = None
) -> Embedder | None:
    """The embedder of a model's name; None for `none` (words only).

    Args:
        model: `embedded`, `none`, an OpenAI-compatible model, a fastembed model or a folder.
        provider: who computes it, one of `names.EMBEDDERS`; `auto`: decided by the name.
        options: for models over HTTP or on disk.

    Raises:
        ConfigError: an extra or a key is missing, or model or provider is unknown.
    """
    if model == NO_EMBEDDER:
        return None
    name = provider_of(model, provider)
    opened: Callable[[str, PartOptions], Embedder] = part(
        EMBEDDERS, name, "embedding provider", "tool_rag.embedding_provider"
    )
    return opened(model, options or PartOptions())


def make_index(
    name: str, embedder: Embedder | None, options: PartOptions | None = None
) -> VectorIndex | None:
    """The index of a name for an embedder; None without one.

    Raises:
        ConfigError: unknown name, a missing extra, or a store that cannot be opened.
    """
    if embedder is None:
        return None
    opened: Callable[[Embedder, PartOptions], VectorIndex] = part(
        INDEXES, name, "index", "tool_rag.index"
    )
    return opened(embedder, options or PartOptions())


def make_rankers() -> dict[str, Ranker]:
    """Every ranker, by the name that configuration and queries use."""
    return {name: part(RANKERS, name, "ranker", "tool_rag.ranker")() for name in RANKERS}


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
    """The options of a retriever, as plain values.

    Attributes:
        model: see `make_embedder`.
        provider: see `make_embedder`.
        strategy: what of a tool is embedded.
        index: see `make_index`.
        openai: for models over HTTP.
        qdrant: for the index `qdrant`.
        settings: ranker, threshold, caps, caches.
        rerank: name of a cross-encoder; None: none.
        cache_dir: folder of document vectors and downloaded models; None: memory only.
    """

    model: str = EMBEDDED
    provider: str = AUTO
    strategy: Strategy = STRATEGY
    index: str = INDEX
    openai: OpenAISettings = field(default_factory=OpenAISettings)
    qdrant: QdrantSettings = field(default_factory=QdrantSettings)
    settings: RetrieverSettings = field(default_factory=RetrieverSettings)
    rerank: str | None = None
    cache_dir: str | None = None


def build_retriever(
    options: RetrievalOptions | None = None,
    *,
    store: ByteStore | None = None,
    generator: QueryGenerator | None = None,
    experience: Experience | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_written: Callable[[], None] | None = None,
) -> Retriever:
    """Assemble a retriever. Nothing is loaded or connected yet.

    Args:
        options: plain values; default: everything embedded.
        store: shared cache of query vectors (Redis).
        generator: writes synthetic queries.
        experience: what calls have shown.
        on_progress: called with (texts embedded, texts to embed).
        on_written: called when the generator has written queries, to have the tools indexed again;
            None: it is never asked.

    Raises:
        ConfigError: a part is not installed or does not fit.
    """
    options = options or RetrievalOptions()
    folder = options.cache_dir
    parts = PartOptions(
        openai=options.openai,
        qdrant=options.qdrant,
        models_dir=None if folder is None else str(Path(folder) / "models"),
    )
    embedder = make_embedder(options.model, options.provider, parts)
    index = make_index(options.index, embedder, parts)
    if embedder is not None:
        embedder = CachedEmbedder(embedder, size=options.settings.query_cache, store=store)
    reranker = None
    if options.rerank is not None:
        from armory.retrieval.ranking.cross_encoder import CrossEncoder

        reranker = CrossEncoder(options.rerank)
    path = None if folder is None else Path(folder) / VECTORS_FILE
    return Retriever(
        embedder,
        index,
        make_rankers(),
        options.settings,
        indexing=Indexing(
            options.strategy, DocumentCache(path), generator, on_progress, on_written
        ),
        experience=experience,
        reranker=reranker,
    )
