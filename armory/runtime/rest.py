"""Assembles the dependencies of the REST service from a running gateway.

Owns: `RestServices` out of a `Runtime`. Opens nothing.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from armory.accounts.service import Accounts
from armory.config.load import read_file
from armory.domain.principal import Principal
from armory.errors import ConfigError
from armory.evaluation.marks import MarkedQueries
from armory.observability.activity import Activity
from armory.observability.redaction import redacted
from armory.runtime.blocks.auditing import audit_reader
from armory.runtime.blocks.people import console_sign_in
from armory.runtime.blocks.pins import tell_approved
from armory.runtime.editing.editor import Editor
from armory.runtime.editing.message_redaction import redacted_message, values_in
from armory.runtime.editing.tag_key import TagKey
from armory.runtime.replicas.broadcast import Broadcast
from armory.runtime.running import Runtime
from armory.runtime.settings import base_path
from armory.runtime.version import armory_version
from armory.upstreams.oauth.grants import has_logins
from armory.upstreams.upstream import Upstream
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.services import RestLimits, RestServices, RetrievalOff, UpstreamInfo
from armory.wire.http.edge import HttpEdge

if TYPE_CHECKING:
    from armory.authserver.server import AuthorizationServer

_LABELS = "labels"


def rest_services(
    runtime: Runtime,
    edge: HttpEdge,
    accounts: Accounts,
    broadcast: Broadcast,
    logging_in: AuthorizationServer | None = None,
) -> RestServices:
    """The dependencies of the REST handlers; `runtime` is read at each request."""
    config, gateway = runtime.loaded.config, runtime.gateway

    def configured() -> str:
        learned = runtime.learning.uses.stamp if runtime.learning else ""
        described = runtime.loaded.config.tool_rag.model_dump_json()
        engine = runtime.retriever
        tuned = None if engine is None else engine.settings.rank.calibration
        identity = f"{armory_version()}\0{described}\0{tuned!r}"
        return hashlib.sha256(identity.encode()).hexdigest() + learned

    def upstreams() -> dict[str, UpstreamInfo]:
        return upstreams_of(runtime)

    def stderr(server: str) -> list[str] | None:
        pool = runtime.pool
        return pool.upstream(server).errors.lines() if server in pool.servers() else None

    limits = config.server.limits

    def own_accounts() -> dict[str, Upstream]:
        pool = runtime.pool
        every = {key: pool.upstream(key) for key in pool.servers()}
        return {key: one for key, one in every.items() if has_logins(one.spec.auth)}

    return RestServices(
        engine=runtime.retriever or RetrievalOff(),
        accounts=accounts,
        authenticator=edge.authenticator,
        catalog=lambda: gateway.view.catalog,
        policy=lambda: gateway.view.policy,
        upstreams=upstreams,
        stderr=stderr,
        agent=runtime.agent,
        own_accounts=own_accounts,
        gate=edge.hosts,
        resources=edge.resources,
        body_bytes=limits.body_bytes,
        json_depth=limits.json_depth,
        limits=RestLimits(limits.rest_query_chars, limits.rest_top_k),
        base_path=base_path(config),
        variant=configured,
        index_settled=runtime.indexing.settled if runtime.indexing else None,
        record_query=runtime.attribution.record_query if runtime.attribution else None,
        take=runtime.limits.take,
        searching=runtime.limits.searching,
        answered=runtime.figures.metrics.answered,
        audit=runtime.observers.audit,
        tracing=runtime.observers.tracing,
        api_keys=config.security.api_keys,
        info={"title": "Armory", "version": armory_version()},
        live=live_gateway(runtime, broadcast, logging_in),
        search_defaults=lambda: search_defaults(runtime),
    )


def broadcast_of(runtime: Runtime, accounts: Accounts) -> Broadcast:
    """Restarts and reloads for all replicas of this gateway."""
    return Broadcast(
        accounts.feed,
        f"{runtime.loaded.project_id} {accounts.database.where}",
        runtime.pool.servers,
        runtime.supervisor.restart,
        partial(_reload, runtime),
    )


def live_gateway(
    runtime: Runtime, broadcast: Broadcast, logging_in: AuthorizationServer | None
) -> LiveGateway:
    """The gateway of `runtime` for REST; parts that a reload replaces are read at each request."""

    def tokens() -> Mapping[str, Principal]:
        return {
            name: Principal(name, entry.user, frozenset(entry.scopes))
            for name, entry in runtime.loaded.config.security.tokens.items()
        }

    loaded = runtime.loaded
    return LiveGateway(
        runtime.gateway,
        runtime.activity or Activity(),
        MarkedQueries(loaded.place_in(loaded.home / _LABELS)),
        admit=runtime.admit,
        tokens=tokens,
        replicas=runtime.joined.replicas is not None,
        restart=broadcast.restart,
        pinning=lambda: runtime.keeper.pinning,
        rebuild=runtime.keeper.approved,
        tell_approved=partial(tell_approved, runtime.accounts),
        reload=broadcast.reload,
        audit=audit_reader(loaded),
        configuration=_editor(runtime),
        sign_in=console_sign_in(loaded, logging_in),
    )


def _editor(runtime: Runtime) -> Editor | None:
    path = runtime.loaded.path
    if path is None:
        return None
    config = runtime.loaded.config
    given = config.security.encryption_key
    key = TagKey(runtime.joined.store, given[0].get_secret_value() if given else None)
    return Editor(runtime, path, config.server.config_editing, key)


async def _reload(runtime: Runtime, dry_run: bool) -> Mapping[str, list[str]]:
    path = runtime.loaded.path
    try:
        return asdict(await runtime.rereading.read(dry_run=dry_run))
    except ConfigError as error:
        if path is None:
            raise
        raise ConfigError(
            redacted_message(str(error), (), values_in(path, read_file(path)))
        ) from None


def search_defaults(runtime: Runtime) -> Mapping[str, Any]:
    """The configured threshold, ranker and maximum number of tools."""
    rag = runtime.loaded.config.tool_rag
    if runtime.retriever is None:
        return {"threshold": None, "ranker": None, "max_tools": None}
    return {
        "threshold": rag.similarity_threshold,
        "ranker": rag.ranker,
        "max_tools": rag.max_tools,
    }


def upstreams_of(runtime: Runtime) -> dict[str, UpstreamInfo]:
    """The status of every upstream, from supervisor and pool."""
    pool, now = runtime.pool.status(), time.monotonic()
    found: dict[str, UpstreamInfo] = {}
    for key, seen in runtime.supervisor.status().items():
        if key not in pool:
            continue
        served = pool[key]
        found[key] = UpstreamInfo(
            seen.state,
            redacted(seen.error),
            seen.era,
            seen.protocol_version,
            seen.dropped,
            seen.dropped_count,
            transport=_transport(runtime, key),
            since_s=max(0.0, now - seen.since),
            attempts=seen.attempts,
            restarts=seen.restarts,
            awaited=seen.awaited,
            sessions=served.sessions.open,
            max_sessions=served.max_sessions,
            isolation=served.isolation,
            own_sessions=served.sessions.own,
            shared_sessions=served.sessions.shared,
            principals=served.sessions.principals,
            stateless=served.sessions.stateless,
            in_flight=served.in_flight,
            queued=served.queued,
            breaker=served.breaker,
        )
    return found


def _transport(runtime: Runtime, key: str) -> str:
    upstream = runtime.pool.upstream(key)
    if upstream.spec.command is not None:
        return "stdio"
    verdict = upstream.connector.verdict
    if verdict is not None:
        return verdict.transport
    return "" if upstream.spec.transport == "auto" else upstream.spec.transport
