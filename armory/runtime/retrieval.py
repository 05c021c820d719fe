"""Builds the retriever from the block `tool_rag`.

Owns: which of its keys goes where. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from armory.config import Loaded
from armory.config.base import values_for
from armory.config.blocks.retrieval import ToolRagConfig
from armory.config.embedding import lacks_openai_key, provider
from armory.errors import ConfigError
from armory.retrieval.indexing.writing import QueryGenerator
from armory.retrieval.options import CALIBRATION, NO_EMBEDDER, Limits
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.rankers.multi_factor import weights_of
from armory.retrieval.registry import (
    VECTORS_FILE,
    OpenAISettings,
    QdrantSettings,
    RetrievalOptions,
    build_retriever,
    load_calibration,
)
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.candidates import Experience
from armory.retrieval.settings import RetrieverSettings
from armory.storage.cache import Cache, Values
from armory.storage.private import private_file

Progress = Callable[[int, int], None]
QUERIES_CACHED = 10_000


def open_retriever(
    loaded: Loaded,
    *,
    shared: Cache | None = None,
    on_progress: Progress | None = None,
    experience: Experience | None = None,
    generator: QueryGenerator | None = None,
    on_written: Callable[[], None] | None = None,
) -> Retriever | None:
    """The configured retriever; None where Tool RAG is off.

    Without the API key that its model needs it searches by words only; the configuration's warnings
    say so.

    Args:
        loaded: the configuration.
        shared: what replicas share; has the vectors of queries that an embedding API computed.
        on_progress: as `build_retriever`.
        experience: likewise.
        generator: likewise.
        on_written: likewise.

    Raises:
        ConfigError: a part is not installed or does not fit.
    """
    if not loaded.config.tool_rag.enabled:
        return None
    _keep_vectors_private(loaded)
    remote = provider(loaded.config) == "openai" and loaded.config.tool_rag.cache_embeddings
    return build_retriever(
        retrieval_options(loaded),
        store=Values(shared) if remote and shared is not None else None,
        experience=experience,
        generator=generator,
        on_progress=on_progress,
        on_written=on_written,
    )


def _keep_vectors_private(loaded: Loaded) -> None:
    """Restrict the vector cache to its owner, if it is in the gateway's own folder; a cache
    elsewhere may be shared.
    """
    folder = loaded.config.storage.cache_dir
    if folder and (path := Path(folder)).is_relative_to(loaded.home):
        with suppress(OSError):  # without a file there is no cache, which is said then
            path.mkdir(parents=True, exist_ok=True)
            private_file(path / VECTORS_FILE)


def retrieval_options(loaded: Loaded) -> RetrievalOptions:
    """The block as plain values.

    Raises:
        ConfigError: the calibration file cannot be used.
    """
    rag, limits = loaded.config.tool_rag, loaded.config.server.limits
    return RetrievalOptions(
        model=NO_EMBEDDER if lacks_openai_key(loaded.config) else rag.embedding_model,
        provider=rag.embedding_provider,
        strategy=rag.embedding_strategy,
        index=rag.index,
        openai=OpenAISettings(**values_for(OpenAISettings, rag.openai)),
        qdrant=QdrantSettings(
            **values_for(QdrantSettings, rag.qdrant, but=("path",)),
            path=None if rag.qdrant.path is None else str(loaded.folder / rag.qdrant.path),
        ),
        settings=replace(
            retriever_settings(rag, loaded.home),
            searches=limits.searches,
            searches_per_caller=limits.searches_per_principal,
        ),
        rerank=rag.rerank,
        cache_dir=loaded.config.storage.cache_dir,
    )


def retriever_settings(rag: ToolRagConfig, home: Path) -> RetrieverSettings:
    """The settings that can change without building another retriever.

    Raises:
        ConfigError: the calibration file cannot be used.
    """
    return RetrieverSettings(
        ranker=rag.ranker,
        into_english=rag.into_english,
        limits=Limits(threshold=rag.similarity_threshold, **values_for(Limits, rag)),
        rank=RankSettings(
            miss_cost=None if rag.miss_cost == "auto" else rag.miss_cost,
            calibration=load_calibration(home / CALIBRATION),
            weights=_weights(rag),
            context_boosts=rag.multi_factor.context_boosts,
        ),
        query_cache=QUERIES_CACHED if rag.cache_embeddings else 0,
    )


def _weights(rag: ToolRagConfig) -> dict[str, float]:
    given = dict(rag.multi_factor.weights)
    try:
        weights_of(given)
    except ConfigError as error:
        raise ConfigError(error.message, path="tool_rag.multi_factor.weights") from None
    return given


ENGINE_KEYS = (
    "enabled",
    "embedding_model",
    "embedding_provider",
    "openai",
    "embedding_strategy",
    "rerank",
    "cache_embeddings",
    "index",
    "qdrant",
    "learn_from_use",
)
"""Keys of the block that take a restart; the others are swapped."""
