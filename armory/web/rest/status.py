"""Upstreams and the catalog over REST.

Owns: the routes. Shows nobody what policy hides.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from pydantic import Field

from armory.errors import UnknownTool
from armory.web.rest.routes import Answer, Reply, RestCall, Route

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


class DroppedAnswer(Answer):
    """An entry of an upstream's list that was left out."""

    list: str = Field(description="The method that listed it.")
    entry: str = Field(description="The entry's name or URI, or its place in the list.")
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
    since_s: float = Field(description="Seconds for which it has been in this state.")
    error: str | None = Field(default=None, description="Why it is down. For administrators.")
    attempts: int | None = Field(
        default=None,
        description="Attempts to connect since it was last stable. For administrators.",
    )
    restarts: int | None = Field(
        default=None, description="How often it was lost and connected anew. For administrators."
    )
    awaited: str | None = Field(
        default=None, description="What its start waits for. For administrators."
    )
    isolation: str | None = Field(
        default=None, description="Who shares a session, as configured. For administrators."
    )
    sessions: int | None = Field(
        default=None, description="Open sessions, the gateway's own included. For administrators."
    )
    max_sessions: int | None = Field(
        default=None, description="The most sessions that it may have. For administrators."
    )
    own_sessions: int | None = Field(
        default=None, description="Clients that have a session of their own. For administrators."
    )
    shared_sessions: int | None = Field(
        default=None, description="Sessions that clients share. For administrators."
    )
    principals: int | None = Field(
        default=None,
        description="Principals whose clients share sessions; 0 where all do. For administrators.",
    )
    stateless: bool | None = Field(
        default=None,
        description="Whether it keeps nothing between requests, so that sessions cost nothing. "
        "For administrators.",
    )
    in_flight: int | None = Field(default=None, description="Calls under way. For administrators.")
    queued: int | None = Field(
        default=None, description="Calls that wait for their turn. For administrators."
    )
    breaker: str | None = Field(
        default=None, description="State of the circuit breaker. For administrators."
    )
    dropped_count: int | None = Field(
        default=None,
        description="Entries of its lists left out as unusable. For administrators.",
    )
    dropped: list[DroppedAnswer] | None = Field(
        default=None, description="The first entries that were left out. For administrators."
    )


class UpstreamList(Answer):
    """The upstreams, as the replica that answers has them."""

    process: str | None = Field(
        description="The process that answers: each replica has its own sessions."
    )
    upstreams: list[UpstreamAnswer]


class StderrAnswer(Answer):
    """What an upstream's processes wrote to standard error: the last 64 KiB, without secrets."""

    server: str
    process: str | None = Field(
        description="The replica's process: each replica has its own upstream processes."
    )
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
    """The routes of upstreams and the catalog."""
    return [
        Route("GET", "/v1/upstreams", upstreams, "State of the upstreams", UpstreamList, tag=_TAG),
        Route("GET", "/v1/upstreams/{server}/logs", stderr, "Standard error of an upstream",
              StderrAnswer, access="admin", tag=_TAG,
              path_params={"server": "Key of the upstream."}),
        Route("GET", "/v1/catalog", catalog, "What the catalog holds", CatalogAnswer, tag=_TAG),
    ]  # fmt: skip


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
    return Reply({"process": _process(call), "upstreams": shown})


async def stderr(call: RestCall) -> Reply:
    """`GET /v1/upstreams/{server}/logs`."""
    server = call.path["server"]
    lines = call.services.stderr(server)
    if lines is None:
        raise UnknownTool(f"there is no upstream {server!r}")
    return Reply({"server": server, "process": _process(call), "lines": list(lines)})


async def catalog(call: RestCall) -> Reply:
    """`GET /v1/catalog`."""
    services = call.services
    snapshot, policy = services.catalog(), services.policy()
    visible = policy.visible_catalog(snapshot, call.principal)
    registry = services.accounts.registry.records
    indexed = sum(
        policy.allows_listed(call.principal, tool)
        for name, tool in registry.items()
        if name not in snapshot.tools
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


def _process(call: RestCall) -> str | None:
    """The replica that answers."""
    live = call.services.live
    return None if live is None else live.activity.process


def _visible_by_server(call: RestCall) -> Counter[str]:
    snapshot = call.services.catalog()
    names = call.services.policy().visible_tools(snapshot, call.principal).names
    return Counter(tool.server for name, tool in snapshot.tools.items() if name in names)
