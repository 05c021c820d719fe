"""What parts that live outside the process, or on disk, are told.

Owns: their options as plain values. Never imports a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class PartOptions:
    """What an embedder or an index may need beyond its name; each takes what concerns it.

    Attributes:
        openai: for models over HTTP.
        qdrant: for the index `qdrant`.
        models_dir: folder of downloaded models; None: the library's own.
    """

    openai: OpenAISettings = field(default_factory=OpenAISettings)
    qdrant: QdrantSettings = field(default_factory=QdrantSettings)
    models_dir: str | None = None
