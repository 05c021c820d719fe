"""The block of one upstream server.

Owns: `UpstreamConfig`. Of the rooms it imports settings only, for their defaults; how keys fit each
other is checked where the upstream's own specification is built.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from armory.config.base import (
    Block,
    Count,
    Name,
    OptionalSecret,
    OptionalText,
    OptionalUrl,
    Patterns,
    Seconds,
    Text,
    Texts,
    Url,
    defaults_of,
)
from armory.domain.catalog import ToolRules
from armory.gateway.settings import ResultFormat
from armory.upstreams.oauth.grants import (
    AuthorizationCode,
    ClientAuth,
    ClientCredentials,
    Per,
    SigningAlgorithm,
    SubjectToken,
    TokenExchange,
)
from armory.upstreams.spec import Isolation, Transport, UpstreamSpec, Whose

_SPEC = defaults_of(UpstreamSpec)
_RULES = defaults_of(ToolRules)
_MACHINE = defaults_of(ClientCredentials)
_PERSON = defaults_of(AuthorizationCode)
_EXCHANGE = defaults_of(TokenExchange)


class TlsConfig(Block):
    """How the upstream's certificate is checked."""

    ca_file: OptionalText = None
    """PEM file of additional certificate authorities."""
    verify: bool = _SPEC.verify
    """Whether the certificate is checked at all. Turn it off for experiments only."""


class ToolsConfig(Block):
    """Which of the upstream's tools are offered and how. Keys and patterns are original names."""

    allow: list[str] = Field(default_factory=lambda: list(_RULES.allow))
    """Glob patterns; a tool that none of them matches is not offered."""
    deny: list[str] = Field(default_factory=list[str])
    """Glob patterns that win over `allow`."""
    rename: dict[str, Name] = Field(default_factory=dict[str, str])
    """Original name: the name that clients see behind `server__`."""
    describe: dict[str, str] = Field(default_factory=dict[str, str])
    """Original name: a description that replaces the upstream's."""
    pin: list[str] = Field(default_factory=list[str])
    """Glob patterns of tools that every listing has, whatever the query."""
    tags: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    """Glob pattern: tags for ranking and filters."""


class BreakerConfig(Block):
    """When an upstream that keeps failing is left alone for a while."""

    failures: Count = _SPEC.breaker_failures
    """Failures in a row that open the breaker; calls then fail at once."""
    open_s: Seconds = _SPEC.breaker_open_s
    """Seconds until one call may try again."""


class AuthConfig(Block):
    """How the gateway gets an access token for the upstream."""

    type: Literal[
        "client_credentials", "authorization_code", "token_exchange", "jwt_bearer", "passthrough"
    ] = "client_credentials"
    """The OAuth 2.1 grant: a machine for itself; a person, who logs in once; the caller's access
    token exchanged for one for the upstream (RFC 8693), or for an ID-JAG that the upstream's own
    authorization server takes (`jwt_bearer`, RFC 7523); or that token itself, where it is for the
    upstream, too."""
    per: Per = _PERSON.per
    """Who logs in with `authorization_code`: `gateway`: the operator, for everybody, with `armory
    login`; `principal`: each caller with an account of its own."""
    audience: OptionalText = None
    """What the token is to be for (`token_exchange`), or is for (`passthrough`); null: the URL.
    With `jwt_bearer` the issuer of the upstream's authorization server."""
    audience_client_id: OptionalText = None
    """The gateway's client id at the authorization server of `audience` (`jwt_bearer`)."""
    audience_client_secret: OptionalSecret = None
    """The secret of `audience_client_id`; null: a public client."""
    subject_token: SubjectToken = _EXCHANGE.subject_token
    """Type of the token that callers bring (`token_exchange`, `jwt_bearer`)."""
    client_id: OptionalText = None
    """The gateway's client id at the authorization server or, with `token_exchange` and
    `jwt_bearer`, at the identity provider. null, with `authorization_code`: it registers itself."""
    client_secret: OptionalSecret = None
    """The secret of `client_id`; take it from a variable: `${DOCS_SECRET}`. Or give
    `private_key`."""
    private_key: OptionalSecret = None
    """PEM of the key that signs assertions (`client_credentials`)."""
    signing_algorithm: SigningAlgorithm = _MACHINE.signing_algorithm
    """What `private_key` signs with."""
    client_metadata_url: OptionalUrl = None
    """A client metadata document, for servers that take its URL as id (`authorization_code`)."""
    token_url: OptionalUrl = None
    """Where tokens are given (`client_credentials`), or exchanged (`token_exchange`, `jwt_bearer`);
    null: what the metadata of the server, or of the issuer, say."""
    issuer: OptionalUrl = None
    """The only authorization server that is believed; null: the one that the server names. With
    `token_exchange` and `jwt_bearer` the identity provider."""
    scopes: Texts = Field(default_factory=list[str])
    """Scopes to ask for; none: what the server asks for."""
    client_auth: ClientAuth = _MACHINE.client_auth
    """How a machine proves who it is; `auto`: what the authorization server takes."""


class UpstreamConfig(Block):
    """One upstream: a process (`command`), a URL (`url`), an API (`openapi`) or a folder of
    `skills`, and its bounds.
    """

    enabled: bool = True
    """false: it is checked, and neither started nor offered."""
    command: str | None = Field(default=None, min_length=1)
    """Program of a stdio server: a name on the PATH, or a path; a relative one counts from `cwd`,
    else from the folder of the configuration file."""
    args: list[Text] = Field(default_factory=list[str])
    """Arguments of the command; `${principal}` becomes a file-safe form of the caller."""
    env: dict[str, Text] = Field(default_factory=dict[str, str])
    """Environment of the command, beside what is inherited: PATH, HOME, LANG and the like, proxies,
    certificates, and the settings of npm, uv and pip. Credentials are not."""
    inherit_env: Patterns = Field(default_factory=list[str])
    """Names or glob patterns of further variables that the command inherits, credentials
    included."""
    cwd: str | None = None
    """Working folder of the command; a relative one counts from the folder of the configuration
    file."""
    url: Url | None = None
    """Endpoint of a Streamable HTTP or HTTP+SSE server."""
    openapi: str | None = Field(default=None, min_length=1)
    """URL or file of an OpenAPI 3 description (JSON or YAML): its operations become tools."""
    base_url: Url | None = None
    """Where the API of `openapi` is; null: where its description says; needed where that is another
    host than the one that the description came from."""
    include: Texts = Field(default_factory=list[str])
    """Glob patterns of operations of `openapi` that become tools, by name or `METHOD /path`; none:
    all."""
    exclude: Texts = Field(default_factory=list[str])
    """Glob patterns of operations of `openapi` that are left out, by name or `METHOD /path`."""
    skills: str | None = Field(default=None, min_length=1)
    """Folder of skills: each folder below it that has a SKILL.md is served as one. Changes are seen
    within `health_interval_s`."""
    transport: Transport = _SPEC.transport
    """`auto`: stdio for a command; for a URL Streamable HTTP first, then HTTP+SSE."""
    headers: dict[str, Text] = Field(default_factory=dict[str, str])
    """Sent with every HTTP request."""
    auth: AuthConfig | None = None
    """An access token for each HTTP request; null: none but what `headers` say."""
    tls: TlsConfig = Field(default_factory=TlsConfig)
    """Certificate checks of an https URL."""
    proxy: OptionalUrl = None
    """URL of an HTTP proxy on the way."""
    protocol: str = _SPEC.protocol
    """`auto` asks the server; or the one protocol revision to speak."""
    isolation: Isolation = _SPEC.isolation
    """Who shares a session or process: everybody, one principal, or one client session."""
    lists: Whose = _SPEC.lists
    """Whose tools, prompts and resources a caller sees: what the gateway is shown, or its own.
    `auto`: its own where `${principal}` occurs and the server says that its lists are private,
    else what the server lists for clients that declare as much; see docs/sessions.md."""
    idle_timeout_s: Seconds = _SPEC.idle_timeout_s
    """Seconds after which an unused session or process is ended."""
    connect_timeout_s: Seconds = _SPEC.connect_timeout_s
    """Deadline of each step of connecting, in seconds."""
    start_timeout_s: Seconds = _SPEC.start_timeout_s
    """Seconds that a start may take where a launcher (npx, uvx, docker run ...) may install the
    server first; if set explicitly, any start. A launcher that makes progress may take longer."""
    call_timeout_s: Seconds = _SPEC.call_timeout_s
    """Deadline of one call, in seconds."""
    health_interval_s: Seconds = _SPEC.health_interval_s
    """Seconds between health probes of a session that is not used, and between listings of a server
    that does not announce changes of its lists, or cannot be heard."""
    max_concurrency: Count = _SPEC.max_concurrency
    """Calls in flight at once."""
    max_queue: Annotated[int, Field(ge=0)] = _SPEC.max_queue
    """Calls that may wait for their turn; more are refused at once."""
    max_sessions: Count = _SPEC.max_sessions
    """Sessions or processes at once."""
    tools: ToolsConfig = Field(default_factory=ToolsConfig)
    """Which tools are offered and how."""
    category: str | None = None
    """Category of all its tools, for filters."""
    tags: list[str] = Field(default_factory=list[str])
    """Tags of all its tools."""
    breaker: BreakerConfig = Field(default_factory=BreakerConfig)
    """When an upstream that fails is left alone for a while."""
    result_format: ResultFormat = "json"
    """`toon`: JSON in text results becomes TOON where that is smaller."""
