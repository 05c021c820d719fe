"""The block `tool_rag`: how `tools/list` answers a query.

Owns: `ToolRagConfig`. Never imports a room, but the settings of two and the names of retrieval's
parts.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from armory.config.base import (
    Block,
    Count,
    Named,
    OptionalSecret,
    OptionalText,
    Share,
    Texts,
    defaults_of,
)
from armory.gateway.settings import GatewaySettings, Reveal, WithoutQuery
from armory.retrieval.names import EMBEDDERS, INDEXES, RANKERS
from armory.retrieval.options import (
    AUTO,
    EMBEDDED,
    INDEX,
    RANKER,
    STRATEGY,
    Limits,
    QdrantSettings,
    Quantization,
    Strategy,
    ThresholdOn,
)

_GATEWAY = defaults_of(GatewaySettings)
_LIMITS = Limits()
_QDRANT = QdrantSettings()


class OpenAIConfig(Block):
    """Any embeddings API that speaks OpenAI's protocol."""

    base_url: OptionalText = None
    """Base URL; null: OpenAI's own."""
    api_key: OptionalSecret = None
    """Key; without this line the variable OPENAI_API_KEY is used."""
    dimensions: Count | None = None
    """Number of dimensions to shorten vectors to, where the model can."""


class QdrantConfig(Block):
    """Where the `qdrant` index lives: a server's URL, or a folder for small catalogs."""

    url: OptionalText = None
    """URL of a Qdrant server or cluster."""
    path: OptionalText = None
    """Folder of an embedded store (one process, small catalogs)."""
    api_key: OptionalSecret = None
    """Key of the server."""
    collection: str = _QDRANT.collection
    """First part of the collections' names: 1 to 150 characters, none of `<>:"/\\|?*`."""
    unused_days: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = _QDRANT.unused_days
    """Days after which unused vectors are deleted from the server; null: never."""
    quantization: Quantization | None = _QDRANT.quantization
    """`int8`: a new collection is searched by one byte a component, its vectors are on disk."""


class MultiFactorConfig(Block):
    """The ranker `multi_factor`."""

    weights: dict[str, Share] = Field(default_factory=dict[str, Share])
    """Weights of similarity, popularity, history, performance: together 1; what is left out keeps
    its 0.40, 0.25, 0.20 or 0.15."""
    context_boosts: bool = False
    """Whether the hour, the last tool's server and the tag `compliance_certified` count."""


class ToolRagConfig(Block):
    """How `tools/list` answers a query."""

    enabled: bool = _GATEWAY.tool_rag
    """Whether a query filters `tools/list` at all."""
    embedding_model: str = Field(default=EMBEDDED, min_length=1)
    """`embedded` needs nothing; others: see `embedding_provider`."""
    embedding_provider: Annotated[str, Named(EMBEDDERS, AUTO)] = AUTO
    """Who computes embeddings; `auto` decides by the model's name."""
    openai: OpenAIConfig = Field(default_factory=OpenAIConfig)
    """For models of an OpenAI-compatible API."""
    embedding_strategy: Strategy = STRATEGY
    """Which texts of a tool are embedded."""
    similarity_threshold: Share = _LIMITS.threshold or 0.0
    """Tools from this score on are listed; 0.7 is stricter, 0.3 laxer."""
    threshold_on: ThresholdOn = _LIMITS.threshold_on
    """What the threshold compares: the calibrated score or the ranker's own number."""
    ranker: Annotated[str, Named(RANKERS)] = RANKER
    """Which formula orders the tools."""
    into_english: bool = True
    """Whether glossaries put queries of other languages into English for an English-only model."""
    rerank: OptionalText = None
    """Name of a cross-encoder that re-orders the best candidates."""
    miss_cost: Literal["auto"] | Annotated[float, Field(gt=0, allow_inf_nan=False)] = "auto"
    """How many superfluous tools are as bad as one that is missing."""
    min_tools: Annotated[int, Field(ge=0)] = _LIMITS.min_tools
    """Number of tools to list at least, even below the threshold."""
    max_tools: Count = _LIMITS.max_tools
    """Number of tools to list at most."""
    token_budget: Count | None = _LIMITS.token_budget
    """Most tokens, at four bytes each, that pinned tools and those of a query may take together;
    what is pinned is listed whatever it takes, and meta-tools are listed beside it.
    """
    cache_embeddings: bool = True
    """Whether embeddings of queries are cached."""
    without_query: WithoutQuery = _GATEWAY.without_query
    """A listing without a query: all tools, or pinned and meta-tools only; `auto` goes by size."""
    full_list_limit: Annotated[int, Field(ge=0)] = _GATEWAY.full_list_limit
    """With `auto`: the largest number of tools that is listed in full."""
    search_tools: bool = _GATEWAY.search_tools
    """Whether the meta-tool `search_tools` exists."""
    call_tool: bool = _GATEWAY.call_tool
    """Whether the meta-tool `call_tool` is listed where the list is cut."""
    pin: Texts = Field(default_factory=list[str])
    """Glob patterns over exposed names; these tools are in every listing."""
    reveal: Reveal = _GATEWAY.reveal
    """`session`: tools that a legacy session searched for enter its list."""
    learn_from_use: bool = False
    """Whether queries that led to successful calls count as evidence later."""
    index: Annotated[str, Named(INDEXES)] = INDEX
    """Where vectors are searched."""
    qdrant: QdrantConfig = Field(default_factory=QdrantConfig)
    """For `index: qdrant`."""
    multi_factor: MultiFactorConfig = Field(default_factory=MultiFactorConfig)
    """For the ranker `multi_factor`."""
