"""What the gateway did lately, and bringing an upstream back.

Owns: the routes. Shows nobody the doings of others but an administrator.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from armory.domain.naming import split_name
from armory.errors import ConfigError, UnknownTool
from armory.observability.activity import Entry, Minute
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.problems import Problem
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape


class Since(Shape):
    """Which entries."""

    after: Annotated[int, Field(ge=0)] = Field(default=0, description="Those with higher numbers.")
    limit: Annotated[int, Field(ge=1, le=1_000)] = 200


class ActivityEntry(Answer):
    """One answered call, listing or search."""

    seq: int
    at_ms: int
    kind: Literal["call", "listing", "search"]
    who: str
    what: str = Field(description="The tool's exposed name, or the query.")
    server: str | None
    ok: bool
    ms: float
    found: list[str]
    visible: int
    saved_tokens: int
    degraded: str | None
    trace: str | None = Field(description="Id of its trace; null where nothing is traced.")


class ActivityAnswer(Answer):
    """The latest entries, newest first: an administrator sees all, others their own."""

    last: int = Field(description="Number of the latest entry; give it as `after`.")
    entries: list[ActivityEntry]


class MinuteAnswer(Answer):
    """One minute in which anything happened."""

    at_ms: int
    calls: int
    errors: int
    queries: int
    empty: int = Field(description="Queries that returned nothing.")
    saved_tokens: int
    p50_ms: float | None = Field(description="Of the calls.")
    p99_ms: float | None


class Whose(Shape):
    """Of which calls; with none of these an administrator is told of everybody's last day."""

    who: Annotated[str, Field(max_length=300)] | None = Field(
        default=None, description="As entries name callers; others than administrators: itself."
    )
    server: Annotated[str, Field(max_length=300)] | None = Field(
        default=None, description="Calls of its tools alone."
    )
    tool: Annotated[str, Field(max_length=300)] | None = Field(
        default=None, description="Calls of it alone."
    )


class Timeline(Answer):
    """Oldest first: the last day since the gateway started, or of the latest entries."""

    minutes: list[MinuteAnswer]


class How(Shape):
    """How the configuration is read again."""

    dry_run: bool = Field(default=False, description="Only say what would become of it.")


class ReloadEffects(Answer):
    """What a configuration does to a gateway that runs."""

    applied: list[str] = Field(description="Blocks that differ and are in force now.")
    needs_restart: list[str] = Field(description="Blocks or keys that take a restart.")
    kept: list[str] = Field(description="Upstreams that keep their processes and sessions.")
    restarted: list[str]
    added: list[str]
    removed: list[str]


class ReloadAnswer(ReloadEffects):
    """What became of the configuration, or would."""

    dry_run: bool


def routes(live: LiveGateway) -> list[Route]:
    """The routes."""
    server = {"server": "Key of the upstream."}
    return [
        Route("GET", "/v1/activity", partial(_activity, live), "The latest calls and queries",
              ActivityAnswer, tag="gateway", params=Since,
              description="Kept in memory, the last 5,000, without arguments and results."),
        Route("GET", "/v1/activity/minutes", partial(_minutes, live), "What happened each minute",
              Timeline, tag="gateway", params=Whose,
              description="All of it covers the last day; a part of it, or the view of others "
              "than administrators, the latest 5,000 entries."),
        Route("POST", "/v1/upstreams/{server}/restart", partial(_restart, live),
              "Connect an upstream anew", None, tag="gateway", access="admin", status=204,
              path_params=server,
              description="Its process or sessions are replaced; calls in flight end."),
        Route("POST", "/v1/reload", partial(_reload, live), "Read the configuration again",
              ReloadAnswer, tag="gateway", access="admin", params=How,
              description="Upstreams that did not change keep their processes and sessions."),
    ]  # fmt: skip


async def _activity(live: LiveGateway, call: RestCall) -> Reply:
    mine = None if call.admin else call.principal.owner
    shown: list[dict[str, Any]] = []
    last = live.activity.last
    for entry in live.activity.latest(after=call.params.after):
        if len(shown) >= call.params.limit:
            break
        if mine is None or entry.owner == mine:
            shown.append(_shown(entry))
    return Reply({"last": last, "entries": shown})


async def _minutes(live: LiveGateway, call: RestCall) -> Reply:
    asked: Whose = call.params
    who = asked.who if call.admin else call.principal.owner
    if who is None and asked.server is None and asked.tool is None:
        return Reply({"minutes": [_minute(minute) for minute in live.activity.minutes()]})

    def fits(entry: Entry) -> bool:
        if who is not None and entry.owner != who:
            return False
        if asked.tool is not None and (entry.kind != "call" or entry.what != asked.tool):
            return False
        return asked.server is None or _server(entry) == asked.server

    return Reply({"minutes": [_minute(minute) for minute in live.activity.minutes_of(fits)]})


async def _restart(live: LiveGateway, call: RestCall) -> Reply:
    server = call.path["server"]
    if server not in call.services.upstreams():
        raise UnknownTool(f"there is no upstream {server!r}")
    await live.restart(server)
    return Reply(None, 204)


async def _reload(live: LiveGateway, call: RestCall) -> Reply:
    dry_run: bool = call.params.dry_run
    try:
        return Reply({"dry_run": dry_run, **await live.reload(dry_run)})
    except ConfigError as error:
        raise Problem(422, error.code, f"{error}; the configuration in force stays") from None


def _server(entry: Entry) -> str | None:
    parts = split_name(entry.what) if entry.kind == "call" else None
    return None if parts is None else parts[0]


def _shown(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "at_ms": entry.at_ms,
        "kind": entry.kind,
        "who": entry.owner,
        "what": entry.what,
        "server": _server(entry),
        "ok": entry.ok,
        "ms": round(entry.ms, 3),
        "found": list(entry.found[:20]),
        "visible": entry.visible,
        "saved_tokens": entry.saved_tokens,
        "degraded": entry.degraded,
        "trace": entry.trace,
    }


def _minute(minute: Minute) -> dict[str, Any]:
    ms = sorted(minute.ms)
    return {
        "at_ms": minute.minute * 60_000,
        "calls": minute.calls,
        "errors": minute.errors,
        "queries": minute.queries,
        "empty": minute.empty,
        "saved_tokens": minute.saved_tokens,
        "p50_ms": round(ms[len(ms) // 2], 3) if ms else None,
        "p99_ms": round(ms[min(len(ms) - 1, len(ms) * 99 // 100)], 3) if ms else None,
    }
