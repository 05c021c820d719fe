"""The whole of `armory.yaml`: one model a block.

Owns: `Config` and its small blocks; the large ones have a file each in `blocks`. Of the rooms it
imports settings only, for their defaults; `runtime` turns each block into such settings.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armory.accounts.settings import AccountSettings
from armory.agent.settings import MAX_ITERATIONS, AgentLimits
from armory.config.base import (
    REDIS_PREFIX_PATTERN,
    Block,
    Count,
    OptionalSecret,
    OptionalText,
    OptionalTexts,
    Patterns,
    Texts,
    defaults_of,
)
from armory.config.blocks.observability import ObservabilityConfig
from armory.config.blocks.retrieval import ToolRagConfig
from armory.config.blocks.security import SecurityConfig
from armory.config.blocks.server import ServerConfig
from armory.config.blocks.upstream import UpstreamConfig
from armory.gateway.settings import WithoutQuery
from armory.storage import REDIS_PREFIX

_ACCOUNTS = defaults_of(AccountSettings)
_AGENT = defaults_of(AgentLimits)


class SetConfig(Block):
    """A named part of the catalog, served at `/mcp/set/{name}`."""

    servers: Texts = Field(default_factory=list[str])
    """Upstreams whose everything is in the set."""
    tools: Texts = Field(default_factory=list[str])
    """Glob patterns over exposed names: tools that are in the set besides."""
    query: OptionalTexts = None
    """A query that counts where the request brings none."""
    without_query: WithoutQuery | None = None
    """What a listing without a query shows, as `tool_rag.without_query`; null: as that says."""


class PlanConfig(Block):
    """What a plan includes."""

    queries_limit: Count | None = None
    """Queries a month; null: without limit."""


def _plans(accounts: AccountSettings) -> dict[str, PlanConfig]:
    limits = accounts.plans.items()
    return {name: PlanConfig(queries_limit=queries_limit) for name, queries_limit in limits}


class AccountsConfig(Block):
    """Users, keys, packs and quotas."""

    enabled: bool = False
    """Whether the accounts database is used."""
    default_plan: str = _ACCOUNTS.default_plan
    """Plan of users that have none."""
    plans: dict[str, PlanConfig] = Field(default_factory=lambda: _plans(_ACCOUNTS))
    """Plans by name."""


class StorageConfig(Block):
    """Where Armory keeps what must survive a restart."""

    url: str
    """SQLAlchemy-style URL: `sqlite:///file` or `postgresql://...`."""
    cache_dir: str
    """Folder of embeddings and other things that can be made again."""
    redis: OptionalText = None
    """URL of a Redis that several replicas share."""
    redis_prefix: Annotated[str, Field(pattern=REDIS_PREFIX_PATTERN)] = REDIS_PREFIX
    """Written before every key and channel in Redis; the same for all replicas, another one for
    each other Armory on that Redis."""


class AgentConfig(Block):
    """The retrieval agent and its chat model."""

    enabled: bool = False
    """Whether the agent is offered."""
    base_url: str = "http://127.0.0.1:11434/v1"
    """OpenAI-compatible chat API (this one is Ollama's)."""
    model: str = "nemotron-3-nano:30b"
    """Chat model."""
    api_key: OptionalSecret = None
    """Key of the API."""
    max_iterations: Annotated[int, Field(ge=1, le=MAX_ITERATIONS)] = _AGENT.max_iterations
    """Most rounds of thinking."""
    documents: OptionalText = None
    """Folder of documents to search besides the catalog."""


class Config(Block):
    """`armory.yaml`."""

    server: ServerConfig = Field(default_factory=ServerConfig)
    """Where the gateway listens and whom it trusts."""
    upstreams: dict[str, UpstreamConfig] = Field(default_factory=dict[str, UpstreamConfig])
    """MCP servers behind the gateway, by key (lower-case words joined by `-`)."""
    inherit_env: Patterns = Field(default_factory=list[str])
    """Names or glob patterns of variables that every stdio server inherits beside the usual."""
    sets: dict[str, SetConfig] = Field(default_factory=dict[str, SetConfig])
    """Named parts of the catalog."""
    tool_rag: ToolRagConfig = Field(default_factory=ToolRagConfig)
    """How `tools/list` answers a query."""
    security: SecurityConfig = Field(default_factory=SecurityConfig)
    """Who may connect, and what each may see and call."""
    accounts: AccountsConfig = Field(default_factory=AccountsConfig)
    """Users, keys, packs and quotas."""
    storage: StorageConfig
    """Where Armory keeps what must survive a restart."""
    agent: AgentConfig = Field(default_factory=AgentConfig)
    """The retrieval agent and its chat model."""
    observability: ObservabilityConfig = Field(default_factory=ObservabilityConfig)
    """Logs and metrics."""
