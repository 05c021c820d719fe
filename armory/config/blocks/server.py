"""The block `server`: where the gateway listens, and what it takes.

Owns: `ServerConfig` and its limits. Of the rooms it imports settings only, for their defaults.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from armory.config.base import (
    BASE_PATH,
    Block,
    Count,
    OptionalSecret,
    Seconds,
    Texts,
    defaults_of,
)
from armory.domain.hosts import NO_ADDRESS, is_address
from armory.domain.query import MAX_QUERY_CHARS, MAX_TOP_K, REST_QUERY_CHARS, REST_TOP_K
from armory.gateway.settings import TASKS_PER_PRINCIPAL, Experimental
from armory.retrieval.options import SEARCHES, SEARCHES_PER_CALLER
from armory.upstreams.spec import CONCURRENT_STARTS, INFLOW_BYTES, OUTFLOW_BYTES, UpstreamSpec
from armory.web.settings import EventLoop, ListenSettings, ReadyWhen
from armory.wire.settings import HttpSettings

_LISTEN = defaults_of(ListenSettings)
_HTTP = defaults_of(HttpSettings)
_SPEC = defaults_of(UpstreamSpec)
QueryChars = Annotated[int, Field(ge=1, le=MAX_QUERY_CHARS)]
TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]


def _one_address(host: str) -> str:
    if not is_address(host):
        raise PydanticCustomError("host", NO_ADDRESS)
    return host


class LimitsConfig(Block):
    """Limits of what clients and upstreams can make the gateway hold."""

    body_bytes: Count = _HTTP.body_bytes
    """Largest request body, in bytes."""
    header_bytes: Annotated[int, Field(ge=1_024)] = _LISTEN.header_bytes
    """Longest request line, and longest single header, in bytes (a query may stand in one)."""
    connections: Count | None = _LISTEN.connections
    """Client connections at once; null: three quarters of the file descriptors of the process, at
    most 16,384. When all are in use, idle ones are closed; if none is idle, only health checks are
    answered."""
    header_timeout_s: Seconds = _LISTEN.header_timeout_s
    """Seconds within which a client must send the whole header of a request; else its connection
    is closed."""
    body_timeout_s: Seconds = _LISTEN.body_timeout_s
    """Seconds after the header within which a client must send the whole body; else its connection
    is closed."""
    keepalive_timeout_s: Seconds = _LISTEN.keepalive_timeout_s
    """Seconds that a connection may wait for its next request; longer than proxies keep theirs."""
    write_timeout_s: Seconds = _LISTEN.write_timeout_s
    """Seconds within which a client must read 64 KiB of what waits for it; else it is closed."""
    unread_bytes: Count = _LISTEN.unread_bytes
    """Bytes of all answers that clients have not read yet. Beyond it, of the caller for whom most
    is held, the connection that lags longest is closed."""
    arriving_bytes: Count = _LISTEN.arriving_bytes
    """Bytes of all requests that are incomplete or not processed yet, counted from 8 KiB a
    connection on. Beyond it, a connection of the caller for whom most is held is closed."""
    json_depth: Annotated[int, Field(ge=8, le=512)] = _HTTP.json_depth
    """How deep the JSON of a client's message, or of a REST body, may be nested."""
    stdio_line_bytes: Count = _SPEC.message_bytes
    """Largest message of an upstream, in bytes, on every transport."""
    inflow_bytes: Count = INFLOW_BYTES
    """Bytes of all answers of upstreams that are incomplete. Beyond it, of the upstream that has
    sent most of them, the answer that has been under way longest is dropped."""
    outflow_bytes: Count = OUTFLOW_BYTES
    """Bytes of all large calls (256 KiB and more) that upstreams have not answered; half of it for
    one caller or one upstream. Further ones are refused."""
    concurrent_starts: Count = CONCURRENT_STARTS
    """Upstream processes that start, or are installed, at once; the others wait in line. One that
    does nothing for half a minute lets the next begin. Processes for single callers do not
    wait."""
    list_entries: Count = _SPEC.list_entries
    """Tools of one upstream, and likewise prompts, resources and templates."""
    list_bytes: Count = _SPEC.list_bytes
    """Memory that all lists of one upstream may take, as estimated: their JSON, and 64 bytes for
    each value in it."""
    batch_items: Count = _HTTP.batch_items
    """Messages in one batch (only revision 2025-03-26 has batches)."""
    batch_answer_bytes: Count = _HTTP.batch_answer_bytes
    """Bytes of the answers to one batch; each request beyond it gets an error."""
    sessions: Count = _HTTP.sessions
    """Client sessions at once."""
    sessions_per_principal: Count = _HTTP.sessions_per_principal
    """Client sessions of one caller at once."""
    session_idle_s: Seconds = _HTTP.session_idle_s
    """Seconds without use after which a client session is ended."""
    streams: Count = _HTTP.streams
    """Open event streams at once."""
    streams_per_principal: Count = _HTTP.streams_per_principal
    """Open event streams of one caller at once."""
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
    """Searches of one caller that run or wait at once; waiting callers are admitted in turn."""
    tasks_per_principal: Count = TASKS_PER_PRINCIPAL
    """Tasks of one caller that the gateway remembers; a call that may create more is refused."""
    parked_interactions: Count = _HTTP.parked
    """Calls that may wait for a client's answer at once."""
    parked_per_principal: Count = _HTTP.parked_per_principal
    """Calls of one caller that may wait for a client's answer at once."""
    parked_timeout_s: Seconds = _HTTP.parked_timeout_s
    """How long a call may wait for its client's answer, in seconds; then it is cancelled upstream
    and forgotten."""


class MetricsConfig(Block):
    """Where `/metrics` is served."""

    port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """A port of its own, with `/healthz` and `/readyz`, without `base_path`; null: the main one."""
    token: OptionalSecret = None
    """Bearer token that `/metrics` asks for; null: none."""


class ServerConfig(Block):
    """Where the gateway listens and whom it trusts."""

    host: Annotated[str, Field(min_length=1), AfterValidator(_one_address)] = "127.0.0.1"
    """Address to bind; `0.0.0.0`: every IPv4 one, `::`: every one of both kinds."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    """Port to bind; 0: one that is free."""
    base_path: Annotated[str, Field(pattern=BASE_PATH)] = ""
    """Path under which a reverse proxy offers the gateway, e.g. `/armory`."""
    allowed_hosts: Texts = Field(default_factory=list[str])
    """Host headers that are served; loopback names always are on loopback binds."""
    allowed_origins: Texts = Field(default_factory=list[str])
    """Origins of browser clients that are served."""
    trusted_proxies: Texts = Field(default_factory=list[str])
    """Addresses or networks whose X-Forwarded-* headers count."""
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    """Limits of what clients and upstreams can make the gateway hold."""
    drain_timeout_s: Seconds = _LISTEN.drain_timeout_s
    """How long calls in flight may go on after SIGTERM, in seconds."""
    drain_delay_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds after SIGTERM during which everything is still served: `/readyz` says no, and each
    connection is closed after its answer, so that load balancers look elsewhere."""
    readiness: ReadyWhen = "gateway"
    """When `/readyz` says yes: `gateway`: it can answer; `any`, `all`: upstreams are there, too."""
    metrics: MetricsConfig = Field(default_factory=MetricsConfig)
    """Where `/metrics` is served."""
    event_loop: EventLoop = "auto"
    """The event loop: `uvloop`, which is faster (installed with Armory on CPython); `asyncio`,
    Python's own; `auto`: uvloop where it is installed."""
    experimental: list[Experimental] = Field(default_factory=list[Experimental])
    """Drafts of the protocol that are served: `filter` (`params.filter` of list requests), `groups`
    (`groups/list` and `groups/get`, for clients that declare them), `manifest` (`tools/manifest`
    and `tools/describe`)."""
    console: bool = True
    """Whether `/console` is served, and `/` sends a browser there."""
    config_editing: bool = False
    """Whether administrators may replace this file in the console and over REST. Whoever may do
    that can run any program as the gateway."""
