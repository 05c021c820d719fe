"""Wiring of the REST service: what it is handed of a running gateway.

Owns: `RestServices` out of a `Runtime`. Opens nothing.
"""

from __future__ import annotations

import hashlib

from armory.accounts.service import Accounts
from armory.observability.redaction import redacted
from armory.runtime.running import Runtime
from armory.runtime.settings import base_path
from armory.runtime.version import armory_version
from armory.web.rest.services import RestServices, RetrievalOff, UpstreamInfo
from armory.wire.http.edge import HttpEdge


def rest_services(runtime: Runtime, edge: HttpEdge, accounts: Accounts) -> RestServices:
    """Everything that REST handlers use, read off `runtime` at each request."""
    config, gateway = runtime.loaded.config, runtime.gateway

    def configured() -> str:
        learned = runtime.learning.uses.stamp if runtime.learning else ""
        described = runtime.loaded.config.tool_rag.model_dump_json()
        return hashlib.sha256(described.encode()).hexdigest() + learned

    def upstreams() -> dict[str, UpstreamInfo]:
        return {
            key: UpstreamInfo(
                found.state,
                redacted(found.error),
                found.era,
                found.protocol_version,
                found.dropped,
                found.dropped_count,
            )
            for key, found in runtime.supervisor.status().items()
        }

    def stderr(server: str) -> list[str] | None:
        pool = runtime.pool
        return pool.upstream(server).errors.lines() if server in pool.servers() else None

    return RestServices(
        engine=runtime.retriever or RetrievalOff(),
        accounts=accounts,
        authenticator=edge.authenticator,
        catalog=lambda: gateway.view.catalog,
        policy=lambda: gateway.view.policy,
        upstreams=upstreams,
        stderr=stderr,
        agent=runtime.agent,
        gate=edge.hosts,
        resources=edge.resources,
        body_bytes=config.server.limits.body_bytes,
        base_path=base_path(config),
        variant=configured,
        asked=runtime.attribution.asked if runtime.attribution else None,
        take=runtime.limits.take,
        answered=runtime.figures.metrics.answered,
        api_keys=config.security.api_keys,
        info={"title": "Armory", "version": armory_version()},
    )
