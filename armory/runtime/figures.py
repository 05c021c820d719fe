"""Reads the values of metrics from a running gateway.

Owns: turning the state of the rooms into figures. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from armory.gateway.metatools.definitions import META_TOOLS
from armory.observability.metrics import CONTENT_TYPE, Metrics
from armory.observability.scraped import AuditFigures, EdgeFigures, UpstreamFigures
from armory.retrieval.retriever import Retriever
from armory.storage.watch import CacheWatch
from armory.upstreams.pool import Pool
from armory.upstreams.supervisor import Supervisor
from armory.web.connections.registry import CUT_FOR
from armory.wire.http.edge import HttpEdge

if TYPE_CHECKING:
    from armory.audit.writer import AuditLog
    from armory.web.app import Listening


class Figures:
    """The state of one gateway, read on demand.

    Args:
        pool, supervisor: give the upstreams; functions, since they exist later.
        edge: gives the HTTP front, None while nothing listens.
        listening: gives the server that it is reached at, likewise.
        retriever: gives the retriever, None where Tool RAG is off.
        shared: whether the store that replicas share is there; None: nothing is shared.
        database: why the database is away, "" while it is there; None: none is used.

    Attributes:
        metrics: counts what happens, and reads the rest at each scrape.
        refused: whether the configuration file is refused as it is now.
    """

    refused: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(
        self,
        pool: Pool,
        supervisor: Callable[[], Supervisor],
        edge: Callable[[], HttpEdge | None],
        listening: Callable[[], Listening | None],
        retriever: Callable[[], Retriever | None],
        shared: CacheWatch | None,
        database: Callable[[], str] | None = None,
    ) -> None:
        self._pool = pool
        self._supervisor = supervisor
        self._edge = edge
        self._listening = listening
        self._retriever = retriever
        self._shared = shared
        self._database = database
        self.metrics = Metrics(
            self._upstreams, self._clients, self._stores, lambda: self.refused(), self._serves
        )

    def watch_audit(self, audit: AuditLog) -> None:
        """Include the audit's metrics."""
        self.metrics.watch_audit(
            lambda: AuditFigures(
                audit.written, audit.dropped, len(audit), audit.failing is not None
            )
        )

    async def metrics_text(self) -> tuple[bytes, str]:
        """(body, content type) of `/metrics`."""
        return await self.metrics.text_in_turns(), CONTENT_TYPE

    def _stores(self) -> dict[str, bool]:
        """Whether each external store answers."""
        retriever, watch = self._retriever(), self._shared
        there = {
            "database": None if self._database is None else not self._database(),
            "shared_store": None if watch is None else not watch.problem,
            "vector_store": None if retriever is None else retriever.store_there,
        }
        return {name: found for name, found in there.items() if found is not None}

    def _serves(self, origin: str) -> bool:
        return origin in META_TOOLS or self._pool.has(origin)

    def _upstreams(self) -> dict[str, UpstreamFigures]:
        pool = self._pool.status()
        return {
            key: UpstreamFigures(
                up=found.up,
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
        listening = self._listening()
        if edge is None or listening is None:
            return None
        return EdgeFigures(
            sessions=len(edge.sessions),
            streams=len(edge.streams),
            parked=edge.interactions.parked,
            refused={**edge.refused(), "connections": listening.refused},
            cut={reason: listening.connections.cut.get(reason, 0) for reason in CUT_FOR},
        )
