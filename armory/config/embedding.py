"""Which provider computes embeddings, according to the configuration.

Owns: what `auto` means, and a missing key. Never imports a room but for the names of embedders.
"""

from __future__ import annotations

from armory.config.model import Config
from armory.retrieval.names import EMBEDDERS

_OPENAI_PREFIX = "text-embedding-"


def provider(config: Config) -> str:
    """Who computes embeddings, one of `EMBEDDERS`, `auto` decided."""
    rag = config.tool_rag
    if rag.embedding_provider != "auto":
        return rag.embedding_provider
    if rag.embedding_model in EMBEDDERS:
        return rag.embedding_model
    return "openai" if rag.embedding_model.startswith(_OPENAI_PREFIX) else "fastembed"


def lacks_openai_key(config: Config) -> bool:
    """Whether embeddings would need a key that is not there."""
    openai = config.tool_rag.openai
    return provider(config) == "openai" and openai.api_key is None and openai.base_url is None


def without_a_key(config: Config) -> str:
    """What `tool_rag` has to say so that no key is needed."""
    model = "embedding_model: embedded"
    return (
        model
        if config.tool_rag.embedding_provider == "auto"
        else f"embedding_provider: auto, {model}"
    )
