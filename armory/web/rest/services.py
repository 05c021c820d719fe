"""The dependencies of the REST API, provided by the runtime.

Owns: the seam. Never makes any of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

from armory.accounts.service import Accounts
from armory.agent.findings import Event
from armory.domain.catalog import Catalog, Dropped
from armory.domain.principal import Principal
from armory.domain.query import REST_QUERY_CHARS, REST_TOP_K, Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.gateway.ports import Finder
from armory.retrieval.ports import FloatArray
from armory.retrieval.ranking.answer import Ranking
from armory.security.authentication import Authenticator
from armory.security.policy import Policy
from armory.upstreams.upstream import Upstream
from armory.web.rest.live.access import LiveGateway

if TYPE_CHECKING:
    from armory.audit.writer import AuditLog
    from armory.telemetry.tracing import Tracing


class Engine(Protocol):
    """Search over the indexed tools (`retrieval.retriever.Retriever`)."""

    @property
    def tools(self) -> Sequence[ToolRecord]:
        """The tools that are searched now; a new object after every change."""
        ...

    async def rank(self, query: Query, visible: VisibleSet | None = None) -> Ranking:
        """All candidates of a query, ordered and scored; nothing is cut."""
        ...

    async def embedding(self, text: str) -> FloatArray | None:
        """(d,) float32 unit vector of a query; None where only words are searched."""
        ...


def retrieval_off() -> BackendError:
    """The error for searches where Tool RAG is off."""
    return BackendError("retrieval is off here; see tool_rag.enabled")


class RetrievalOff:
    """The engine of a gateway without Tool RAG: it holds no tools, and refuses every search."""

    tools: Sequence[ToolRecord] = ()

    async def rank(self, query: Query, visible: VisibleSet | None = None) -> Ranking:
        """As `Engine.rank`.

        Raises:
            BackendError: always.
        """
        raise retrieval_off()

    async def embedding(self, text: str) -> FloatArray | None:
        """As `Engine.embedding`.

        Raises:
            BackendError: always.
        """
        raise retrieval_off()


class Agent(Finder, Protocol):
    """The retrieval agent (`agent.loop.RetrievalAgent`)."""

    def stream(
        self,
        question: str,
        *,
        visible: VisibleSet | None = None,
        user: str | None = None,
        rejected: Collection[str] = (),
        top_k: int = 10,
    ) -> AsyncGenerator[Event, None]:
        """The run, event by event."""
        ...


class Gate(Protocol):
    """Checks of `Host` and `Origin` (`wire.http.host_checks.HostChecks`)."""

    def host_allowed(self, host: str | None) -> bool:
        """Whether requests with this Host value are accepted."""
        ...

    def origin_allowed(self, origin: str) -> bool:
        """Whether browser pages of this origin may call the gateway."""
        ...

    def seen_as(
        self, peer: str | None, headers: Mapping[str, str]
    ) -> tuple[str | None, str | None]:
        """(client address, Host value) of a request, through trusted proxies."""
        ...


class Resources(Protocol):
    """The gateway as an OAuth protected resource (`wire.http.resources.ProtectedResources`)."""

    def whole(self, request: web.Request) -> str | None:
        """The resource identifier that a token must be for."""
        ...

    def metadata_url(self, request: web.Request, path: str | None = None) -> str | None:
        """The URL of an endpoint's resource metadata, by the endpoint's path."""
        ...


@dataclass(frozen=True, slots=True)
class UpstreamInfo:
    """One upstream, for the status page.

    Attributes:
        state: connecting, ready, down or login_required.
        error: why it is down, "" otherwise; for administrators.
        era: protocol era, or None.
        protocol_version: revision spoken, or "".
        dropped: the first entries of its lists that were left out; for administrators.
        dropped_count: how many were left out in all.
        transport: stdio, streamable-http or sse; "" while unknown.
        since_s: for so many seconds it has been in this state.
        attempts: attempts to connect since it was last stable.
        restarts: how often it was lost and connected anew.
        awaited: what its process has not done yet while it starts, or "".
        sessions, in_flight, queued: sessions, calls under way, calls that wait.
        max_sessions: how many sessions there may be.
        isolation: by what they are kept apart, as configured.
        own_sessions: clients that have a session of their own.
        shared_sessions, principals: sessions that clients share, and of how many principals these
            are; 0 principals where all share them.
        stateless: whether the upstream keeps nothing between requests.
        breaker: closed, open or half_open.
    """

    state: str
    error: str = ""
    era: str | None = None
    protocol_version: str = ""
    dropped: Sequence[Dropped] = ()
    dropped_count: int = 0
    transport: str = ""
    since_s: float = 0.0
    attempts: int = 0
    restarts: int = 0
    awaited: str = ""
    sessions: int = 0
    max_sessions: int = 0
    isolation: str = "principal"
    own_sessions: int = 0
    shared_sessions: int = 0
    principals: int = 0
    stateless: bool = False
    in_flight: int = 0
    queued: int = 0
    breaker: str = "closed"


@dataclass(frozen=True, slots=True)
class RestLimits:
    """What a request may ask for.

    Attributes:
        query_chars: longest query.
        top_k: most tools.
    """

    query_chars: int = REST_QUERY_CHARS
    top_k: int = REST_TOP_K


@dataclass(frozen=True, slots=True, eq=False)
class RestServices:
    """The dependencies of the REST handlers.

    Attributes:
        engine: retrieval.
        accounts: users, keys, packs, statistics, the query log.
        authenticator: who is it.
        catalog: the snapshot that is served now.
        policy: the policy in force now.
        body_bytes, json_depth: largest body, and how deep its JSON may be nested.
        api_keys: whether keys of the database are accepted.
        upstreams: state of every upstream.
        stderr: what is kept of an upstream's standard error; None: there is no such upstream.
        agent: the retrieval agent, where enabled.
        own_accounts: upstreams at which callers have accounts of their own, by key.
        gate: Host and Origin checks, where there are any.
        resources: the gateway as a resource of OAuth; None: no access tokens are taken.
        limits: see `RestLimits`.
        base_path: prefix of every route, without a trailing slash.
        variant: gives a text that differs whenever the retrieval configuration does.
        index_settled: waits until the tools that were given to the index can be found; None:
            nothing is searched.
        record_query: called for every answered search with the user, its texts and the exposed
            names of the tools that were found; None: searches are not recorded.
        take: counts one request of a principal; raises `RateLimited` where it is one too many.
        searching: likewise one search.
        answered: called for every request with its method, the route's path, status and seconds.
        audit: takes the records of requests over REST; None: the audit is off.
        tracing: makes their spans; None: tracing is off.
        info: title and version for the API description.
        live: the running gateway; None: the routes that need it are absent.
        search_defaults: threshold, ranker and max_tools as configured; None where nothing is
            searched.
    """

    engine: Engine
    accounts: Accounts
    authenticator: Authenticator
    catalog: Callable[[], Catalog]
    policy: Callable[[], Policy]
    body_bytes: int
    json_depth: int
    api_keys: bool
    upstreams: Callable[[], Mapping[str, UpstreamInfo]] = dict
    stderr: Callable[[str], Sequence[str] | None] = lambda _server: None
    agent: Agent | None = None
    own_accounts: Callable[[], Mapping[str, Upstream]] = dict
    gate: Gate | None = None
    resources: Resources | None = None
    limits: RestLimits = field(default_factory=RestLimits)
    base_path: str = ""
    variant: Callable[[], str] = str
    index_settled: Callable[[], Awaitable[None]] | None = None
    record_query: Callable[[Principal, tuple[str, ...], tuple[str, ...]], None] | None = None
    take: Callable[[Principal], Awaitable[None]] | None = None
    searching: Callable[[Principal], Awaitable[None]] | None = None
    answered: Callable[[str, str, int, float], None] | None = None
    audit: AuditLog | None = None
    tracing: Tracing | None = None
    info: Mapping[str, Any] = field(
        default_factory=lambda: {"title": "Armory", "version": "0"},
    )
    live: LiveGateway | None = None
    search_defaults: Callable[[], Mapping[str, Any]] = lambda: {
        "threshold": None,
        "ranker": None,
        "max_tools": None,
    }
