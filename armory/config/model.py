"""The whole of `armory.yaml`: one model a block.

Owns: `Config` and its blocks, except the two large ones (`upstream`, `retrieval`). Of the rooms it
imports settings only, for their defaults; `runtime` turns each block into such settings.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from armory.accounts.settings import AccountSettings
from armory.agent.settings import MAX_ITERATIONS, AgentLimits
from armory.audit.settings import Arguments, AuditSettings
from armory.config.base import (
    Block,
    Count,
    OptionalSecret,
    OptionalText,
    Patterns,
    Seconds,
    Secrets,
    Texts,
    defaults_of,
)
from armory.config.retrieval import ToolRagConfig
from armory.config.upstream import UpstreamConfig
from armory.domain.query import MAX_QUERY_CHARS, MAX_TOP_K, REST_QUERY_CHARS, REST_TOP_K
from armory.gateway.settings import WithoutQuery
from armory.observability.settings import LogFormat, LogLevel, LogSettings
from armory.retrieval.options import SEARCHES, SEARCHES_PER_CALLER
from armory.security.settings import JwtSettings, OAuthSettings, PinningMode
from armory.telemetry.settings import Enabled, OtelSettings
from armory.upstreams.spec import INFLOW_BYTES, UpstreamSpec
from armory.web.settings import EventLoop, ListenSettings, ReadyWhen
from armory.wire.http.settings import HttpSettings

_LISTEN = defaults_of(ListenSettings)
_HTTP = defaults_of(HttpSettings)
QueryChars = Annotated[int, Field(ge=1, le=MAX_QUERY_CHARS)]
TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]
_SPEC = defaults_of(UpstreamSpec)
_JWT = defaults_of(JwtSettings)
_OAUTH = defaults_of(OAuthSettings)
_ACCOUNTS = defaults_of(AccountSettings)
_AGENT = defaults_of(AgentLimits)
_LOGS = defaults_of(LogSettings)
_OTEL = defaults_of(OtelSettings)
_AUDIT = defaults_of(AuditSettings)


class LimitsConfig(Block):
    """What one gateway takes before it says no."""

    body_bytes: Count = _HTTP.body_bytes
    """Largest request body, in bytes."""
    header_bytes: Annotated[int, Field(ge=1_024)] = _LISTEN.header_bytes
    """Longest request line, and longest single header, in bytes (a query may stand in one)."""
    connections: Count | None = _LISTEN.connections
    """Connections of clients at once; null: three quarters of the descriptors that the process may
    have. With more, those that wait for a request are closed; with none of these, only health is
    answered."""
    header_timeout_s: Seconds = _LISTEN.header_timeout_s
    """A client that has not sent the whole header of a request by then is cut off."""
    body_timeout_s: Seconds = _LISTEN.body_timeout_s
    """The same for the body, counted from the end of the header."""
    keepalive_timeout_s: Seconds = _LISTEN.keepalive_timeout_s
    """A connection that waits so long for its next request is closed; longer than proxies do."""
    write_timeout_s: Seconds = _LISTEN.write_timeout_s
    """A client that takes longer to read 64 KiB of what waits for it is cut off."""
    unread_bytes: Count = _LISTEN.unread_bytes
    """Answers that wait for their clients to read them, in bytes and in all; with more, the client
    that lags longest is cut off."""
    json_depth: Annotated[int, Field(ge=8, le=512)] = _HTTP.json_depth
    """How deep the JSON of a client's message may be nested."""
    stdio_line_bytes: Count = _SPEC.message_bytes
    """Largest message of an upstream, in bytes."""
    inflow_bytes: Count = INFLOW_BYTES
    """Answers of upstreams that are not whole yet, in bytes and in all; with more, the upstream
    that has sent most of that loses the answer that has been under way longest."""
    list_entries: Count = _SPEC.list_entries
    """Tools of one upstream, and likewise prompts, resources and templates."""
    batch_items: Count = _HTTP.batch_items
    """Messages in one batch (only revision 2025-03-26 has batches)."""
    batch_answer_bytes: Count = _HTTP.batch_answer_bytes
    """What one batch is answered, in bytes; requests beyond it get an error each."""
    sessions: Count = _HTTP.sessions
    """Client sessions at once."""
    sessions_per_principal: Count = _HTTP.sessions_per_principal
    """The same for one caller."""
    session_idle_s: Seconds = _HTTP.session_idle_s
    """A client session that nobody used for so many seconds is ended."""
    streams: Count = _HTTP.streams
    """Open event streams at once."""
    streams_per_principal: Count = _HTTP.streams_per_principal
    """The same for one caller."""
    query_chars: QueryChars = MAX_QUERY_CHARS
    """Longest query over MCP, in characters; several texts count together."""
    query_top_k: TopK = MAX_TOP_K
    """Most tools that a query over MCP may ask for."""
    rest_query_chars: QueryChars = REST_QUERY_CHARS
    """Longest query over REST, in characters."""
    rest_top_k: TopK = REST_TOP_K
    """Most tools that a query over REST may ask for."""
    searches: Count = SEARCHES
    """Searches that run or wait at once; one more is refused."""
    searches_per_principal: Count = SEARCHES_PER_CALLER
    """The same for one caller; who waits gets room in turn."""
    parked_interactions: Count = _HTTP.parked
    """Calls that may wait for a client's answer at once."""
    parked_per_principal: Count = _HTTP.parked_per_principal
    """The same for one caller."""
    parked_timeout_s: Seconds = _HTTP.parked_timeout_s
    """So long such a call waits, in seconds; then it is cancelled upstream and forgotten."""


class MetricsConfig(Block):
    """Where `/metrics` is served."""

    port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """A port of its own, with `/healthz` and `/readyz`, without `base_path`; null: the main one."""
    token: OptionalSecret = None
    """Bearer token that `/metrics` asks for; null: none."""


class ServerConfig(Block):
    """Where the gateway listens and whom it trusts."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address to bind; `0.0.0.0`: every IPv4 one, `::`: every one of both kinds."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    """Port to bind; 0: one that is free."""
    base_path: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._~-]+)*/?$")] = ""
    """Path under which a reverse proxy offers the gateway, e.g. `/armory`."""
    allowed_hosts: Texts = Field(default_factory=list[str])
    """Host headers that are served; loopback names always are on loopback binds."""
    allowed_origins: Texts = Field(default_factory=list[str])
    """Origins of browser clients that are served."""
    trusted_proxies: Texts = Field(default_factory=list[str])
    """Addresses or networks whose X-Forwarded-* headers count."""
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    """What it takes before it says no."""
    drain_timeout_s: Seconds = _LISTEN.drain_timeout_s
    """How long calls in flight may go on after SIGTERM, in seconds."""
    drain_delay_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """How long SIGTERM leaves everything open, in seconds: `/readyz` says no and connections are
    closed after each answer, so that a balancer sends no more."""
    readiness: ReadyWhen = "gateway"
    """When `/readyz` says yes: `gateway`: it can answer; `any`, `all`: upstreams are there, too."""
    metrics: MetricsConfig = Field(default_factory=MetricsConfig)
    """Where `/metrics` is served."""
    event_loop: EventLoop = "asyncio"
    """What runs everything: `asyncio`, Python's own; `uvloop`, faster with few connections (extra
    `uvloop`, not for Windows); `auto`: uvloop where it is installed."""
    console: bool = True
    """Whether `/console` is served, and `/` sends a browser there."""


class SetConfig(Block):
    """A named part of the catalog, served at `/mcp/set/{name}`."""

    servers: Texts = Field(default_factory=list[str])
    """Upstreams whose everything is in the set."""
    tools: Texts = Field(default_factory=list[str])
    """Glob patterns over exposed names, in the set besides."""
    query: str | Annotated[list[str], Field(max_length=16)] | None = None
    """A query that counts where the request brings none."""
    without_query: WithoutQuery | None = None
    """As in `tool_rag`; null: the same."""


class TokenConfig(Block):
    """One static bearer token."""

    token: SecretStr
    """The secret; take it from a variable: `${ARMORY_TOKEN}`."""
    scopes: Texts = Field(default_factory=list[str])
    """What it grants; policies speak about scopes."""
    user: str | None = None
    """The account that it acts for."""


class JwtConfig(Block):
    """Session tokens of an identity provider."""

    issuer: OptionalText = None
    """Required `iss`."""
    audience: OptionalText = None
    """Required `aud`."""
    jwks_url: OptionalText = None
    """Where the provider's public keys are; or give `secret`."""
    secret: OptionalSecret = None
    """Shared secret of HS256."""
    algorithms: Texts = Field(default_factory=lambda: list(_JWT.algorithms))
    """Accepted signature algorithms."""
    user_claim: str = _JWT.user_claim
    """Claim with the user's id."""
    scopes_claim: str = _JWT.scopes_claim
    """Claim with the scopes (a list, or words in a text)."""


class IntrospectionConfig(Block):
    """How opaque tokens are checked."""

    url: OptionalText = Field(default=None, pattern=r"^https?://[^\s]+$")
    """Introspection endpoint (RFC 7662); null: the one that the issuer's metadata name."""
    client_id: str = Field(min_length=1)
    """The gateway there."""
    client_secret: SecretStr
    """Its secret; take it from a variable."""


class OAuthConfig(Block):
    """Access tokens of authorization servers, which clients log in to by themselves."""

    issuer: Annotated[Texts, Field(min_length=1)]
    """Issuer identifier of the authorization server, or several; an https URL."""
    audience: Texts = Field(default_factory=list[str])
    """What a token may be for, beside the endpoint's own URL."""
    scopes: Texts = Field(default_factory=list[str])
    """That every token needs; clients are told to ask for them."""
    user_claim: str = _OAUTH.user_claim
    """Claim with the user's id."""
    scopes_claim: str = _OAUTH.scopes_claim
    """Claim with the scopes (a list, or words in a text), e.g. `scp`, `roles`."""
    client_id: OptionalText = None
    """The gateway itself at the issuer, for its page /connect; null: it registers itself."""
    client_secret: OptionalSecret = None
    """Its secret."""
    introspection: IntrospectionConfig | None = None
    """How opaque tokens are checked; null: only signed ones (JWTs) are taken."""


class PolicyConfig(Block):
    """One rule; with any rule, what no rule allows is denied."""

    who: Texts = Field(default_factory=list[str])
    """Glob patterns over scopes, users and token names; empty: everybody."""
    allow: Texts = Field(default_factory=list[str])
    """Glob patterns over exposed names."""
    deny: Texts = Field(default_factory=list[str])
    """Likewise; wins over every `allow`."""


class RateLimitConfig(Block):
    """How often each caller may ask, on each replica."""

    per_s: Seconds
    """Requests a second that it may keep up."""
    burst: Count | None = None
    """Requests that it may make at once after a pause; null: a second's worth."""


class SecurityConfig(Block):
    """Who may connect, and what each may see and call."""

    tokens: dict[str, TokenConfig] = Field(default_factory=dict[str, TokenConfig])
    """Static bearer tokens by name."""
    api_keys: bool = False
    """Whether keys of the accounts database are accepted."""
    jwt: JwtConfig | None = None
    """Session tokens of an identity provider."""
    oauth: OAuthConfig | None = None
    """Access tokens of authorization servers, which clients log in to by themselves."""
    encryption_key: Secrets = Field(default_factory=list[SecretStr])
    """Seals people's logins; the first seals, all open. None: ${ARMORY_HOME}/key is made."""
    allow_anonymous: Literal["auto"] | bool = "auto"
    """`auto`: requests without a credential are served only on loopback binds without `oauth`."""
    policies: list[PolicyConfig] = Field(default_factory=list[PolicyConfig])
    """Rules; none: everything is allowed."""
    rate_limit: RateLimitConfig | None = None
    """Calls, queries and REST requests of each caller a second; null: without limit."""
    pinning: PinningMode = "warn"
    """What to do when a tool's definition changes under its name."""


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


class QueryLogConfig(Block):
    """The log of queries, for statistics and tuning."""

    enabled: bool = _ACCOUNTS.query_log
    """Whether queries are recorded."""
    retention_days: Count = _ACCOUNTS.retention_days
    """Days until a record is deleted."""
    redact: Texts = Field(default_factory=list[str])
    """Regular expressions; what they match is replaced before it is stored."""


class OtelConfig(Block):
    """OpenTelemetry: spans and metrics over OTLP, as its standard environment variables say."""

    enabled: Enabled = _OTEL.enabled
    """`auto`: when `OTEL_EXPORTER_OTLP_ENDPOINT`, or that of a signal, is set."""
    queries: bool = _OTEL.queries
    """Whether spans of retrieval carry the text that was searched for."""


class AuditConfig(Block):
    """The append-only record of who asked what."""

    to: OptionalText = _AUDIT.to
    """`stdout`, `database`, or the path of a file (relative ones count from this file); null:
    nowhere."""
    arguments: Arguments = _AUDIT.arguments
    """What is kept of a call's arguments: `"off"`: nothing; `hash`: their SHA-256; `full`: all."""
    retention_days: Count = _AUDIT.retention_days
    """Rows of the database are deleted after so many days; files are left to `logrotate`."""


class ObservabilityConfig(Block):
    """Logs, metrics, traces."""

    log_level: LogLevel = _LOGS.log_level
    """Least important events that are logged."""
    log_format: LogFormat = _LOGS.log_format
    """`auto`: readable on a terminal, JSON otherwise."""
    metrics: bool = True
    """Whether `/metrics` is served."""
    otel: OtelConfig = Field(default_factory=OtelConfig)
    """OpenTelemetry."""
    audit: AuditConfig = Field(default_factory=AuditConfig)
    """The audit."""
    query_log: QueryLogConfig = Field(default_factory=QueryLogConfig)
    """The log of queries."""


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
