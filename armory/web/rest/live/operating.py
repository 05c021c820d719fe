"""Recent activity, reloading the configuration, and restarting an upstream.

Owns: the routes. Only administrators see the activity of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from armory.domain.naming import split_name
from armory.errors import ConfigError, UnknownTool
from armory.observability.activity import Activity, Entry
from armory.observability.history import MINUTE_S, PART_S, Tally
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.problems import Problem, not_found
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape


class ActivityParams(Shape):
    """Which entries."""

    after: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="Only entries with higher numbers, which go on over restarts of the gateway.",
    )
    seen: Annotated[str, Field(max_length=1_000)] | None = Field(
        default=None,
        description="For replicas behind one address: `PROCESS:LAST` of each that has answered, "
        "with commas between. Stands for `after`; of one that is not named all entries come.",
    )
    limit: Annotated[int, Field(ge=1, le=1_000)] = 200


class ActivityEntry(Answer):
    """One answered call, listing or search."""

    seq: int
    at_ms: int
    kind: Literal["call", "listing", "search"]
    who: str
    what: str = Field(description="The tool's exposed name, or the query.")
    server: str | None
    ok: bool | None = Field(description="Whether it went well; null: it was cancelled.")
    ms: float
    found: list[str]
    visible: int
    saved_tokens: int
    degraded: str | None
    trace: str | None = Field(description="Id of its trace; null where nothing is traced.")
    contents: bool = Field(description="Whether arguments or result were kept.")


class ActivityAnswer(Answer):
    """The latest entries, newest first: an administrator sees all, others their own."""

    process: str = Field(
        description="The process whose entries these are: each replica keeps its own."
    )
    last: int = Field(description="Number of the latest entry; give it as `after`.")
    entries: list[ActivityEntry]


class ContentsParams(Shape):
    """Whose entry."""

    process: Annotated[str, Field(max_length=100)] | None = Field(
        default=None,
        description="The process that listed it; another one answers 404 `other_process`, and a "
        "request on a new connection may reach it.",
    )


class ContentsAnswer(Answer):
    """What went to a tool and what came back: JSON without secrets, cut at 2,000 characters."""

    arguments: str | None = Field(
        description="Arguments of the call; null: it had none, or "
        "`observability.activity.arguments` is off."
    )
    result: str | None = Field(
        description="Result of the call; null: it had none, or `observability.activity.results` "
        "is off."
    )


class MinuteAnswer(Answer):
    """One stretch of time in which anything happened."""

    at_ms: int
    calls: int
    errors: int
    queries: int
    empty: int = Field(description="Queries that returned nothing.")
    saved_tokens: int
    p50_ms: float | None = Field(description="Median duration of a sample of the calls.")
    p99_ms: float | None = Field(description="99th percentile of the same sample.")


class TimelineParams(Shape):
    """Of which calls; with none of these an administrator is told of everybody's last day."""

    who: Annotated[str, Field(max_length=300)] | None = Field(
        default=None,
        description="A caller, as entries name it; who is no administrator may name itself alone.",
    )
    server: Annotated[str, Field(max_length=300)] | None = Field(
        default=None, description="Only calls of this upstream's tools."
    )
    tool: Annotated[str, Field(max_length=300)] | None = Field(
        default=None, description="Only calls of the tool of this exposed name."
    )


class Timeline(Answer):
    """Oldest first: the last day, since the gateway started."""

    process: str = Field(
        description="The process that has counted: each replica counts for itself."
    )
    since_ms: int = Field(
        description="Milliseconds since 1970 from which on everything was counted."
    )
    stretch_ms: int = Field(
        description="Length of each stretch: a minute, or five where a part is asked for."
    )
    callers: list[str] = Field(
        description="The callers that did anything; administrators are told."
    )
    minutes: list[MinuteAnswer]


class ReloadParams(Shape):
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
    """What became of the configuration at the replica that answers, or would."""

    dry_run: bool
    process: str = Field(description="The process that answers.")


def routes(live: LiveGateway) -> list[Route]:
    """The routes."""
    server = {"server": "Key of the upstream."}
    return [
        Route("GET", "/v1/activity", partial(_activity, live), "The latest calls and queries",
              ActivityAnswer, tag="gateway", params=ActivityParams,
              description="Kept in memory, the last 5,000 of the process that answers."),
        Route("GET", "/v1/activity/{seq}", partial(_contents, live), "What a call said",
              ContentsAnswer, tag="gateway", params=ContentsParams,
              path_params={"seq": "Number of the entry."},
              description="404 where `observability.activity` does not have it kept, or the entry "
              "is gone."),
        Route("GET", "/v1/activity/minutes", partial(_minutes, live), "What happened each minute",
              Timeline, tag="gateway", params=TimelineParams,
              description="The last day by minute; a part of it, and the view of others than "
              "administrators, by five minutes."),
        Route("POST", "/v1/upstreams/{server}/restart", partial(_restart, live),
              "Connect an upstream anew", None, tag="gateway", access="admin", status=204,
              path_params=server,
              description="The upstream's process or sessions are replaced, at all replicas; calls "
              "in flight end."),
        Route("POST", "/v1/reload", partial(_reload, live), "Read the configuration again",
              ReloadAnswer, tag="gateway", access="admin", params=ReloadParams,
              description="Upstreams that did not change keep their processes and sessions. All "
              "replicas read theirs, where it holds at the one that answers."),
    ]  # fmt: skip


async def _activity(live: LiveGateway, call: RestCall) -> Reply:
    mine = None if call.admin else call.principal.owner
    shown: list[dict[str, Any]] = []
    last = live.activity.last
    asked: ActivityParams = call.params
    after = asked.after if asked.seen is None else _last_seen(asked.seen, live.activity.process)
    for entry in live.activity.latest(after=after):
        if len(shown) >= asked.limit:
            break
        if mine is None or entry.owner == mine:
            shown.append(_shown(entry))
    return Reply({"process": live.activity.process, "last": last, "entries": shown})


def _last_seen(seen: str, process: str) -> int:
    """The last number that the client has seen of this process; 0: none."""
    for one in seen.split(","):
        name, _, last = one.partition(":")
        if name == process:
            return _number(last)
    return 0


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0


async def _contents(live: LiveGateway, call: RestCall) -> Reply:
    if call.params.process not in (None, live.activity.process):
        message = "another process has this entry; ask again on a new connection"
        raise Problem(404, "other_process", message, headers={"Connection": "close"})
    found = live.activity.contents(_number(call.path["seq"]))
    if found is None or not (call.admin or found[0] == call.principal.owner):
        raise not_found("contents of an entry")
    return Reply(found[1]._asdict())


async def _minutes(live: LiveGateway, call: RestCall) -> Reply:
    asked: TimelineParams = call.params
    activity = live.activity
    who = asked.who if call.admin else call.principal.owner
    callers = activity.callers() if call.admin else []
    if who is None and asked.server is None and asked.tool is None:
        return _timeline(activity, activity.since, MINUTE_S, callers, activity.minutes())

    def fits(owner: str, tool: str) -> bool:
        if who is not None and owner != who:
            return False
        if asked.tool is not None and tool != asked.tool:
            return False
        return asked.server is None or _server(tool) == asked.server

    since, found = activity.parts(fits)
    return _timeline(activity, since, PART_S, callers, found)


async def _restart(live: LiveGateway, call: RestCall) -> Reply:
    server = call.path["server"]
    if server not in call.services.upstreams():
        raise UnknownTool(f"there is no upstream {server!r}")
    await live.restart(server)
    return Reply(None, 204)


async def _reload(live: LiveGateway, call: RestCall) -> Reply:
    dry_run: bool = call.params.dry_run
    try:
        done = await live.reload(dry_run)
        return Reply({"dry_run": dry_run, "process": live.activity.process, **done})
    except ConfigError as error:
        raise Problem(422, error.code, f"{error}; the configuration in force stays") from None


def _server(tool: str) -> str | None:
    parts = split_name(tool)
    return None if parts is None else parts[0]


def _shown(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "at_ms": entry.at_ms,
        "kind": entry.kind,
        "who": entry.owner,
        "what": entry.what,
        "server": _server(entry.what) if entry.kind == "call" else None,
        "ok": entry.ok,
        "ms": round(entry.ms, 3),
        "found": list(entry.found[:20]),
        "visible": entry.visible,
        "saved_tokens": entry.saved_tokens,
        "degraded": entry.degraded,
        "trace": entry.trace,
        "contents": entry.contents is not None,
    }


def _timeline(
    activity: Activity,
    since: float,
    stretch_s: int,
    callers: list[str],
    tallies: Iterable[tuple[int, Tally]],
) -> Reply:
    shown = [_minute(at, tally) for at, tally in tallies]
    times = {"since_ms": int(since * 1_000), "stretch_ms": stretch_s * 1_000}
    return Reply({"process": activity.process, **times, "callers": callers, "minutes": shown})


def _minute(at: int, tally: Tally) -> dict[str, Any]:
    ms = sorted(tally.ms)
    return {
        "at_ms": at * 1_000,
        "calls": tally.calls,
        "errors": tally.errors,
        "queries": tally.queries,
        "empty": tally.empty,
        "saved_tokens": tally.saved_tokens,
        "p50_ms": round(ms[len(ms) // 2], 3) if ms else None,
        "p99_ms": round(ms[min(len(ms) - 1, len(ms) * 99 // 100)], 3) if ms else None,
    }
