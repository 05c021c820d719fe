"""Replaces parts of the request path by observed ones, where tracing or metrics need it.

Owns: deciding which parts are replaced by watched ones. Never measures anything itself.
"""

from __future__ import annotations

from collections.abc import Callable

from armory.errors import UpstreamUnavailable
from armory.gateway import ports
from armory.gateway.observed import Address, ObservedPool, ObservedRetriever, SessionDurations
from armory.upstreams.pool import Pool
from armory.wire.observed import Observers


def watched(
    pool: Pool,
    retriever: ports.Retriever | None,
    observers: Observers,
    catalog_version: Callable[[], int],
) -> tuple[ports.Pool, ports.Retriever | None]:
    """(pool, retriever) for the request path: wrapped if calls are observed, else unchanged.

    Args:
        pool: the upstream sessions.
        retriever: None where Tool RAG is off.
        observers: who watches.
        catalog_version: of the catalog that is served.
    """
    if not observers:
        return pool, retriever
    tracing = observers.tracing
    if tracing is not None:
        pool.observers.add(SessionDurations(tracing))
    if tracing is not None and retriever is not None:
        retriever = ObservedRetriever(retriever, tracing, catalog_version)

    def address(server: str) -> Address:
        try:
            return pool.upstream(server).spec.address
        except UpstreamUnavailable:
            return None, None

    return ObservedPool(pool, tracing, address), retriever
