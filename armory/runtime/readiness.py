"""The readiness of a running gateway, for `/readyz`.

Owns: when requests should come, and what to say of everything that is missing or works less well
than it should. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from armory.observability.redaction import redacted
from armory.runtime.blocks.accounts import accounts_needed
from armory.runtime.running import Runtime
from armory.upstreams.state import PoolStatus, UpstreamStatus
from armory.web.health import Readiness

SLOW_S = 2.0
"""A database that takes longer for one look is reported: cached rows are not believed meanwhile,
and each request that needs it asks the database."""


def readiness(runtime: Runtime) -> Readiness:
    """A gateway is ready once it has served its first snapshot.

    By `server.readiness`, any or all of the upstreams must be ready, too. It is not ready while it
    shuts down, its accounts are away, or its audit drops records.
    """
    status, served = runtime.supervisor.status(), runtime.gateway.view.catalog.servers
    blocked, audit = _blocked(runtime), runtime.observers.audit
    ready = runtime.first_snapshot.is_set() and blocked is None
    ready = ready and not (audit is not None and audit.full)
    upstreams = runtime.started.server.readiness
    if upstreams == "any":
        ready = ready and (not status or bool(served))
    elif upstreams == "all":
        ready = ready and all(found.up and key in served for key, found in status.items())
    missing = [] if blocked is None else [blocked]
    missing += _missing(runtime, status)
    missing += _degraded(runtime)
    return Readiness(ready, tuple(map(redacted, missing)), _details(runtime, status))


def _blocked(runtime: Runtime) -> str | None:
    """Why requests should not come although everything else is ready; None: they may."""
    return "shutting down" if runtime.leaving else _accounts_away(runtime)


def _accounts_away(runtime: Runtime) -> str | None:
    away = runtime.opening.away if runtime.opening is not None else None
    return f"accounts: {away}" if away and accounts_needed(runtime.loaded.config) else None


def _slow(runtime: Runtime) -> str:
    accounts = runtime.accounts
    if accounts is None or accounts.feed.took_s < SLOW_S:
        return ""
    return f"it answers slowly, by now after {accounts.feed.took_s:.1f} s (`storage.url`)"


def _missing(runtime: Runtime, status: Mapping[str, UpstreamStatus]) -> Iterator[str]:
    audit = runtime.observers.audit
    if audit is not None and audit.state is not None:
        yield f"audit: {audit.state}"
    if (alone := runtime.limits.away) is not None:
        yield f"limits: counted by each replica for itself: {alone}"
    if not runtime.first_snapshot.is_set():
        yield "first snapshot: upstreams are still connecting"
    for key, found in status.items():
        if not found.up:
            yield found.error or f"upstream {key!r}: {found.awaited or found.state}"
    served = runtime.gateway.view.catalog.servers
    for key, found in status.items():
        if found.up and key not in served:
            yield f"upstream {key!r}: its lists have come and are not served yet"
    if indexing := runtime.keeper.indexing:
        yield f"retrieval: {indexing:,} tools are being indexed"


def _degraded(runtime: Runtime) -> Iterator[str]:
    """What works less well than it should, and why."""
    if runtime.retriever is not None and runtime.retriever.degraded:
        yield f"retrieval: {runtime.retriever.degraded}"
    if away := runtime.joined.away:
        yield f"shared store: {away}"
    if not _accounts_away(runtime) and (away := runtime.database_away() or _slow(runtime)):
        yield f"database: {away}"
    if refused := runtime.rereading.refused:
        yield f"configuration: {refused}"
    if problem := runtime.home.problem:
        yield f"data folder: {problem}"


def _details(runtime: Runtime, status: Mapping[str, UpstreamStatus]) -> dict[str, Any]:
    pool = runtime.pool.status()
    process = {} if runtime.activity is None else {"process": runtime.activity.process}
    return process | {
        "upstreams": {
            key: {**_upstream(found), **_sessions(pool.get(key))} for key, found in status.items()
        },
        "tools": len(runtime.gateway.view.catalog.tools),
    }


def _upstream(found: UpstreamStatus) -> dict[str, Any]:
    return {
        "state": found.state,
        "tools": found.tools,
        "skills": found.skills,
        "error": redacted(found.error),
        "awaited": redacted(found.awaited),
        "dropped": found.dropped_count,
        "left_out": [
            {"list": one.list, "entry": redacted(one.entry), "reason": redacted(one.reason)}
            for one in found.dropped
        ],
    }


def _sessions(pool: PoolStatus | None) -> dict[str, Any]:
    """The sessions of one upstream by who uses them, in the words of docs/sessions.md."""
    if pool is None:
        return {}
    counts = pool.sessions
    return {
        "isolation": pool.isolation,
        "sessions": counts.open,
        "max_sessions": pool.max_sessions,
        "own_sessions": counts.own,
        "shared_sessions": counts.shared,
        "principals": counts.principals,
        "stateless": counts.stateless,
    }
