"""Usage, quota, the query log, upstreams and the catalog over REST.

Owns: the routes. Shows nobody what policy hides, nor one user the doings of another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from armory.errors import AccessDenied, UnknownTool
from armory.web.rest.problems import limit_headers
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape
from armory.web.rest.shapes import Name

_TAG = "status"
_FOR_ADMINISTRATORS = (
    "attempts",
    "restarts",
    "isolation",
    "sessions",
    "max_sessions",
    "own_sessions",
    "shared_sessions",
    "principals",
    "stateless",
    "in_flight",
    "queued",
    "breaker",
)


class Whose(Shape):
    """Whose figures; another user's are for administrators."""

    user: Name | None = None


class Latest(Whose):
    """How many of the latest records."""

    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


class UserToolAnswer(Answer):
    """What one user has done with one tool."""

    tool: str
    uses: int
    successes: int
    last_used_at_ms: int


class UserUsage(Answer):
    """What one user has used."""

    user: str
    tools: list[UserToolAnswer]


class ToolUsageAnswer(Answer):
    """One tool over the window."""

    tool: str
    uses: int
    successes: int
    error_rate: float
    uptime: float = Field(description="Share of the time that its server was up, 0 to 1.")
    p50_ms: float
    p99_ms: float
    last_used_at_ms: int


class ToolUsage(Answer):
    """The tools that the caller may see, most used first."""

    tools: list[ToolUsageAnswer]


class QuotaAnswer(Answer):
    """Where a user stands this month."""

    plan: str
    queries_limit: int | None = Field(description="null: without limit.")
    current_month_usage: int
    remaining: int | None
    resets_at_s: int


class QueryAnswer(Answer):
    """One record of the query log."""

    query_id: str
    at_ms: int
    user: str | None
    surface: str
    query: str
    returned: list[str]
    visible: int
    top_score: float
    took_ms: float
    degraded: str | None


class QueryList(Answer):
    """The latest queries, newest first."""

    queries: list[QueryAnswer]


class DroppedAnswer(Answer):
    """An entry of an upstream's list that was left out."""

    list: str = Field(description="The method that listed it.")
    entry: str = Field(description="Its name or URI, or its place in the list.")
    reason: str


class UpstreamAnswer(Answer):
    """One upstream that the caller sees something of."""

    server: str
    state: str
    era: str | None
    protocol_version: str
    tools: int
    uptime: float
    transport: str = Field(description="stdio, streamable-http, sse; empty while unknown.")
    since_s: float = Field(description="For so long it has been in this state.")
    error: str | None = Field(default=None, description="For administrators.")
    attempts: int | None = Field(
        default=None, description="Since it was last stable. For administrators."
    )
    restarts: int | None = Field(
        default=None, description="How often it was lost and connected anew. For administrators."
    )
    awaited: str | None = Field(
        default=None, description="What its start waits for. For administrators."
    )
    isolation: str | None = Field(
        default=None, description="By what sessions are kept apart. For administrators."
    )
    sessions: int | None = Field(
        default=None, description="The gateway's own included. For administrators."
    )
    max_sessions: int | None = Field(default=None, description="For administrators.")
    own_sessions: int | None = Field(
        default=None, description="Clients that have a session of their own. For administrators."
    )
    shared_sessions: int | None = Field(
        default=None, description="Sessions that clients share. For administrators."
    )
    principals: int | None = Field(
        default=None,
        description="Whose clients share them; 0 where all principals do. For administrators.",
    )
    stateless: bool | None = Field(
        default=None,
        description="It keeps nothing between requests: sessions cost nothing. For administrators.",
    )
    in_flight: int | None = Field(default=None, description="For administrators.")
    queued: int | None = Field(default=None, description="For administrators.")
    breaker: str | None = Field(default=None, description="For administrators.")
    dropped_count: int | None = Field(
        default=None,
        description="Entries of its lists left out as unusable. For administrators.",
    )
    dropped: list[DroppedAnswer] | None = Field(
        default=None, description="The first of them. For administrators."
    )


class UpstreamList(Answer):
    """The upstreams."""

    upstreams: list[UpstreamAnswer]


class StderrAnswer(Answer):
    """What an upstream's processes wrote to standard error: the last 64 KiB, without secrets."""

    server: str
    lines: list[str]


class CatalogAnswer(Answer):
    """The catalog as the caller sees it."""

    version: int
    tools: int
    prompts: int
    resources: int
    indexed_tools: int = Field(description="Tools of the index that no upstream offers.")
    servers: dict[str, int] = Field(description="Tools by server.")


def routes() -> list[Route]:
    """The routes of usage and status."""

    def route(path: str, *rest: object, **more: object) -> Route:
        return Route("GET", path, *rest, tag=_TAG, **more)  # pyright: ignore

    return [
        route("/v1/usage", usage, "What a user has used", UserUsage, access="user", params=Whose),
        route("/v1/usage/tools", tool_usage, "Statistics of tools", ToolUsage),
        route("/v1/quota", quota, "Queries left this month", QuotaAnswer, access="user",
              params=Whose, limit_headers=True, accounts=True),
        route("/v1/queries", queries, "The query log", QueryList, access="user", params=Latest),
        route("/v1/upstreams", upstreams, "State of the upstreams", UpstreamList),
        route("/v1/upstreams/{server}/logs", stderr, "Standard error of an upstream", StderrAnswer,
              access="admin", path_params={"server": "Key of the upstream."}),
        route("/v1/catalog", catalog, "What the catalog holds", CatalogAnswer),
    ]  # fmt: skip


def _whose(call: RestCall) -> str:
    asked = call.params.user
    if asked is None or (call.principal.user is not None and asked == call.principal.user):
        return call.user
    if not call.admin:
        raise AccessDenied("other users' figures are for the scope `admin`")
    return str(asked)


async def usage(call: RestCall) -> Reply:
    """`GET /v1/usage`."""
    user = _whose(call)
    found = call.services.accounts.usage.of_user(user)
    tools = [
        {
            "tool": name,
            "uses": row.uses,
            "successes": row.successes,
            "last_used_at_ms": row.last_used_at_ms,
        }
        for name, row in sorted(found.items(), key=lambda item: (-item[1].uses, item[0]))
    ]
    return Reply({"user": user, "tools": tools})


async def tool_usage(call: RestCall) -> Reply:
    """`GET /v1/usage/tools`."""
    visible = call.services.policy().visible_tools(call.services.catalog(), call.principal).names
    usage = call.services.accounts.usage
    found = usage.tools()
    shown = sorted(
        ((name, stats) for name, stats in found.items() if name in visible or call.admin),
        key=lambda item: (-item[1].uses, item[0]),
    )
    tools = [
        {
            "tool": name,
            "uses": stats.uses,
            "successes": stats.successes,
            "error_rate": round(stats.error_rate, 6),
            "uptime": round(usage.uptime_behind(name), 6),
            "p50_ms": round(stats.p50_ms, 3),
            "p99_ms": round(stats.p99_ms, 3),
            "last_used_at_ms": stats.last_used_at_ms,
        }
        for name, stats in shown
    ]
    return Reply({"tools": tools})


async def quota(call: RestCall) -> Reply:
    """`GET /v1/quota`."""
    found = await call.services.accounts.quotas.standing(_whose(call))
    body = {
        "plan": found.plan,
        "queries_limit": found.queries_limit,
        "current_month_usage": found.current_month_usage,
        "remaining": found.remaining,
        "resets_at_s": found.resets_at_s,
    }
    return Reply(body, headers=limit_headers(found))


async def queries(call: RestCall) -> Reply:
    """`GET /v1/queries`."""
    whole = call.admin and call.params.user is None
    user = None if whole else _whose(call)
    log = call.services.accounts.query_log
    return Reply({"queries": await log.recent(user=user, limit=call.params.limit)})


async def upstreams(call: RestCall) -> Reply:
    """`GET /v1/upstreams`."""
    services = call.services
    counts = _visible_by_server(call)
    shown: list[dict[str, Any]] = []
    for server, info in services.upstreams().items():
        if server not in counts and not call.admin:
            continue
        entry: dict[str, Any] = {
            "server": server,
            "state": info.state,
            "era": info.era,
            "protocol_version": info.protocol_version,
            "tools": counts[server],
            "uptime": round(services.accounts.usage.uptime(server), 6),
            "transport": info.transport,
            "since_s": round(info.since_s, 1),
        }
        if call.admin:
            entry["error"] = info.error or None
            entry["awaited"] = info.awaited or None
            for name in _FOR_ADMINISTRATORS:
                entry[name] = getattr(info, name)
            entry["dropped_count"] = info.dropped_count
            entry["dropped"] = [asdict(dropped) for dropped in info.dropped]
        shown.append(entry)
    return Reply({"upstreams": shown})


async def stderr(call: RestCall) -> Reply:
    """`GET /v1/upstreams/{server}/logs`."""
    server = call.path["server"]
    lines = call.services.stderr(server)
    if lines is None:
        raise UnknownTool(f"there is no upstream {server!r}")
    return Reply({"server": server, "lines": list(lines)})


async def catalog(call: RestCall) -> Reply:
    """`GET /v1/catalog`."""
    services = call.services
    snapshot, policy = services.catalog(), services.policy()
    visible = policy.visible_catalog(snapshot, call.principal)
    registry = services.accounts.registry.records
    indexed = sum(
        policy.allows(call.principal, name) for name in registry if name not in snapshot.tools
    )
    return Reply(
        {
            "version": snapshot.version,
            "tools": len(visible.tools),
            "prompts": len(visible.prompts),
            "resources": len(visible.resources),
            "indexed_tools": indexed,
            "servers": dict(_visible_by_server(call)),
        }
    )


def _visible_by_server(call: RestCall) -> Counter[str]:
    snapshot = call.services.catalog()
    names = call.services.policy().visible_tools(snapshot, call.principal).names
    return Counter(tool.server for name, tool in snapshot.tools.items() if name in names)
