"""What health and metrics read off a running gateway.

Owns: turning the state of the rooms into `Readiness` and figures. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from armory.gateway.gateway import Gateway
from armory.observability.metrics import (
    CONTENT_TYPE,
    AuditFigures,
    EdgeFigures,
    Metrics,
    UpstreamFigures,
)
from armory.observability.redaction import redacted
from armory.retrieval.retriever import Retriever
from armory.storage.watch import CacheWatch
from armory.upstreams.owner import UpstreamStatus
from armory.upstreams.pool import Pool, PoolStatus
from armory.upstreams.supervisor import Supervisor
from armory.web.health import Readiness
from armory.web.settings import ReadyWhen
from armory.wire.http.edge import HttpEdge

if TYPE_CHECKING:
    from armory.audit.writer import AuditLog


class Figures:
    """The state of one gateway, read when it is asked for.

    Args:
        pool, supervisor: give the upstreams; functions, since they exist later.
        edge: gives the HTTP front, None while nothing listens.
        retriever: gives the retriever, None where Tool RAG is off.
        shared: whether the store that replicas share is there; None: nothing is shared.
        database: why the database is away, "" while it is there; None: none is used.

    Attributes:
        limits_away: why this replica counts limits for itself although others do, too; None: it
            does not, or that is as it should be.
    """

    limits_away: Callable[[], str | None] = staticmethod(lambda: None)

    def __init__(
        self,
        pool: Pool,
        supervisor: Callable[[], Supervisor],
        edge: Callable[[], HttpEdge | None],
        retriever: Callable[[], Retriever | None],
        shared: CacheWatch | None,
        database: Callable[[], str] | None = None,
    ) -> None:
        self._pool = pool
        self._supervisor = supervisor
        self._edge = edge
        self._retriever = retriever
        self._shared = shared
        self._database = database
        self.metrics = Metrics(self._upstreams, self._clients, self._stores)

    def readiness(
        self,
        gateway: Gateway,
        *,
        degraded: Sequence[str] = (),
        snapshot: bool,
        indexing: int = 0,
        upstreams: ReadyWhen = "gateway",
        blocked: str | None = None,
        audit: AuditLog | None = None,
    ) -> Readiness:
        """What `/readyz` says. Ready is a gateway that can answer: it has had its first snapshot.

        Args:
            gateway: whose view is served.
            degraded: what works less well than it should, in words.
            snapshot: whether the first snapshot was there.
            indexing: tools that are being made searchable.
            upstreams: as `server.readiness`: whether any or all of them have to be there, too.
            blocked: why requests should not come although all that is there; None: they may.
            audit: has to take what is done; requests should not come while it drops records.
        """
        status = self._supervisor().status()
        served, pool = gateway.view.catalog.servers, self._pool.status()
        details = {
            "upstreams": {
                key: {**_upstream(found), **_sessions(pool.get(key))}
                for key, found in status.items()
            },
            "tools": len(gateway.view.catalog.tools),
        }
        missing: list[str] = [] if blocked is None else [blocked]
        if audit is not None and audit.state is not None:
            missing.append(f"audit: {audit.state}")
        limits = self.limits_away()
        if limits is not None:
            missing.append(f"limits: counted by each replica for itself: {limits}")
        if not snapshot:
            missing.append("first snapshot: upstreams are still connecting")
        missing += [
            found.error or f"upstream {key!r}: {found.awaited or found.state}"
            for key, found in status.items()
            if found.state != "ready"
        ]
        missing += [
            f"upstream {key!r}: its lists have come and are not served yet"
            for key, found in status.items()
            if found.state == "ready" and key not in served
        ]
        if indexing:
            missing.append(f"retrieval: {indexing:,} tools are being indexed")
        missing += degraded
        ready = snapshot and blocked is None and not (audit is not None and audit.full)
        if upstreams == "any":
            ready = ready and (not status or bool(served))
        elif upstreams == "all":
            ready = ready and all(
                found.state == "ready" and key in served for key, found in status.items()
            )
        return Readiness(ready, tuple(map(redacted, missing)), details)

    def watch_audit(self, audit: AuditLog) -> None:
        """Show the audit's figures, too."""
        self.metrics.watch_audit(
            lambda: AuditFigures(
                audit.written, audit.dropped, len(audit), audit.failing is not None
            )
        )

    async def metrics_text(self) -> tuple[bytes, str]:
        """(body, content type) of `/metrics`."""
        return await self.metrics.text_in_turns(), CONTENT_TYPE

    def _stores(self) -> dict[str, bool]:
        """Whether each store outside this process answers."""
        retriever, watch = self._retriever(), self._shared
        there = {
            "database": None if self._database is None else not self._database(),
            "shared_store": None if watch is None else not watch.problem,
            "vector_store": None if retriever is None else retriever.store_there,
        }
        return {name: found for name, found in there.items() if found is not None}

    def _upstreams(self) -> dict[str, UpstreamFigures]:
        pool = self._pool.status()
        return {
            key: UpstreamFigures(
                up=found.state == "ready",
                tools=found.tools,
                sessions=pool[key].sessions.open,
                in_flight=pool[key].in_flight,
                queued=pool[key].queued,
                breaker=pool[key].breaker,
            )
            for key, found in self._supervisor().status().items()
            if key in pool
        }

    def _clients(self) -> EdgeFigures | None:
        edge = self._edge()
        if edge is None:
            return None
        return EdgeFigures(
            sessions=len(edge.sessions),
            streams=len(edge.streams),
            parked=edge.interactions.parked,
        )


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
    """Whose the sessions of one upstream are, in the words of docs/sessions.md."""
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
