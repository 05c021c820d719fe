"""The parts of the request path as they are watched, where anybody watches.

Owns: deciding which parts are replaced by watched ones. Never measures anything itself.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from armory.errors import UpstreamUnavailable
from armory.gateway import ports
from armory.gateway.observed import Address, ObservedPool, ObservedRetriever, SessionDurations
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.wire.observed import Observers


def watched(
    pool: Pool,
    retriever: ports.Retriever | None,
    observers: Observers,
    catalog_version: Callable[[], int],
) -> tuple[ports.Pool, ports.Retriever | None]:
    """(pool, retriever) for the request path: themselves where nobody watches.

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

    known: dict[str, tuple[UpstreamSpec, Address]] = {}

    def address(server: str) -> Address:
        try:
            spec = pool.upstream(server).spec
        except UpstreamUnavailable:
            return Address()
        found = known.get(server)
        if found is None or found[0] is not spec:
            known[server] = found = spec, _address_of(_place(spec))
        return found[1]

    return ObservedPool(pool, tracing, address), retriever


def _place(spec: UpstreamSpec) -> str | None:
    if spec.openapi is None:
        return spec.url
    return spec.base_url or (spec.openapi if "://" in spec.openapi else None)


def _address_of(url: str | None) -> Address:
    if url is None:
        return Address()
    parts = urlsplit(url)
    return Address(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
