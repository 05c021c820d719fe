"""One gateway, from configuration to listening port and back.

Owns: the order of starting and stopping, and what a reload swaps. Everything that it opens is
closed in reverse, whatever happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import structlog

from armory.accounts.scopes import PackScopes
from armory.accounts.service import Accounts
from armory.agent.loop import RetrievalAgent
from armory.config import Config, Loaded
from armory.domain.principal import Principal
from armory.gateway.gateway import Gateway
from armory.observability.metrics import CONTENT_TYPE, EdgeFigures, Metrics, UpstreamFigures
from armory.retrieval.retriever import Retriever
from armory.runtime.accounts import (
    AlsoIndexed,
    Fan,
    RestEngine,
    make_accounts,
    opened,
    schemes,
    states,
    variant,
)
from armory.runtime.agents import open_agent
from armory.runtime.catalogue import CatalogueKeeper
from armory.runtime.retrieval import (
    ENGINE_KEYS,
    Progress,
    open_retriever,
    retriever_settings,
)
from armory.runtime.settings import (
    armory_version,
    authenticator,
    base_path,
    http_settings,
    reloadable,
)
from armory.security.policy import Policy
from armory.upstreams.link import Params
from armory.upstreams.pool import Pool
from armory.upstreams.supervisor import Supervisor
from armory.web.app import Listening, listen, make_app
from armory.web.health import Health, Readiness
from armory.web.rest import register_rest
from armory.web.services import RestLimits, RestServices, UpstreamInfo
from armory.wire.http import HttpEdge

_log = structlog.get_logger(__name__)
FIRST_SNAPSHOT_S = 10.0
"""So long the first snapshot waits for upstreams that have neither answered nor failed."""
_RESTART_BLOCKS = ("server", "accounts", "storage", "agent", "observability")
_FIXED_KEYS = {
    "tool_rag": ENGINE_KEYS,
    "security": ("tokens", "api_keys", "jwt", "allow_anonymous", "pinning"),
}
"""Keys that take a restart in blocks of which the rest is swapped."""


@dataclass(slots=True)
class Reloaded:
    """What became of a new configuration.

    Attributes:
        applied: blocks that differ and are in force now.
        needs_restart: blocks that differ and take a restart.
    """

    applied: list[str] = field(default_factory=list[str])
    needs_restart: list[str] = field(default_factory=list[str])


class _Ears:
    """Passes on to the gateway what upstreams say; the pool exists before the gateway does."""

    def __init__(self) -> None:
        self.gateway: Gateway | None = None

    def on_notification(self, server: str, owner: str, method: str, params: Params) -> None:
        if self.gateway is not None:
            self.gateway.on_notification(server, owner, method, params)


class Runtime:
    """A gateway that runs. Made by `open_runtime`.

    Attributes:
        loaded: the configuration in force.
        gateway: the request path.
        accounts: users, keys, packs, statistics; None for the operator's own commands.
        pool, supervisor: the upstreams.
        retriever: None where Tool RAG is off.
        metrics: counted figures.
        edge: MCP over HTTP; None while nothing listens.
        listening: the bound server; None likewise.
    """

    def __init__(
        self, loaded: Loaded, *, trusted: bool = False, on_progress: Progress | None = None
    ) -> None:
        self.accounts = None if trusted else make_accounts(loaded)
        parts = reloadable(loaded, self._packs())
        self.loaded = loaded
        self.edge: HttpEdge | None = None
        self.listening: Listening | None = None
        ears = _Ears()
        self.pool = Pool(
            parts.specs,
            listener=ears,
            client_info={"name": "armory", "version": armory_version()},
        )
        accounts = self.accounts
        self.retriever: Retriever | None = open_retriever(
            loaded, on_progress=on_progress, usage=accounts.usage if accounts else None
        )
        self.metrics = Metrics(self._upstream_figures, self._edge_figures)
        self._trusted = trusted
        self.gateway = Gateway(
            self.pool,
            self.retriever,
            Policy() if trusted else parts.policy,
            parts.gateway,
            limiter=accounts,
            events=Fan([self.metrics, accounts]) if accounts else self.metrics,
        )
        ears.gateway = self.gateway
        self._indexing: AlsoIndexed | None = None
        if self.retriever is not None and accounts is not None:
            self._indexing = AlsoIndexed(self.retriever, accounts.registry)
        self.keeper = CatalogueKeeper(
            lambda: self.supervisor.lists(),
            self.gateway.publish,
            self._indexing or self.retriever,
            parts.rules,
        )
        self.supervisor = Supervisor(self.pool, self.keeper.changed)
        if accounts is not None:
            accounts.usage.tool_count = lambda: len(self.gateway.view.catalog.tools)
            accounts.upstreams = lambda: states(self.supervisor.status())
            accounts.scopes.on_change = self.gateway.changes.tell_user
        self._snapshot = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None

    def _packs(self) -> PackScopes | None:
        accounts = self.accounts
        return accounts.scopes if accounts is not None and accounts.enabled else None

    async def admit(self, principal: Principal) -> None:
        """Have what policy needs of the principal's account in memory.

        Raises:
            AuthenticationFailed: the account is switched off.
        """
        packs = self._packs()
        if packs is not None:
            await packs.admit(principal)

    async def start_upstreams(self) -> None:
        """Begin to connect to every upstream; returns at once."""
        self.keeper.start()
        await self.supervisor.start()
        self._starting = asyncio.get_running_loop().create_task(self._first_snapshot())

    async def _first_snapshot(self) -> None:
        await self.supervisor.wait_first(FIRST_SNAPSHOT_S)
        await self.keeper.settle()
        self._snapshot.set()

    async def ready(self) -> None:
        """Wait until the first snapshot is served: every upstream has answered or failed, or has
        had its time.
        """
        if not self._snapshot.is_set():
            await self._snapshot.wait()

    async def stop_upstreams(self) -> None:
        """End every task, process and connection toward upstreams."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await self.supervisor.stop()
        await self.keeper.stop()
        if self._indexing is not None:
            await self._indexing.close()
        await self.pool.close()
        if self.retriever is not None:
            await self.retriever.aclose()

    # -- serving -----------------------------------------------------------------------------

    async def listen(self, stack: AsyncExitStack, host: str, port: int) -> Listening:
        """Bind the port and serve; undone when `stack` unwinds.

        Raises:
            ConfigError: nobody could or everybody would be served, or the port is taken.
        """
        config = self.loaded.config
        checks = authenticator(config, schemes(config, self.accounts), self._packs())
        edge = HttpEdge(self.gateway, checks, http_settings(config))
        app = make_app(
            body_bytes=config.server.limits.body_bytes,
            wait_ready=self.ready,
            log_requests=config.observability.log_level == "debug",
        )
        edge.register(app)
        prefix = base_path(config)
        metrics = self._metrics_text if config.observability.metrics else None
        Health(self.readiness, metrics).register(app, prefix)
        if self.accounts is not None:
            register_rest(app, await self._rest(stack, edge, self.accounts))

        async def end_streams(_app: object) -> None:
            edge.end_streams()

        app.on_shutdown.append(end_streams)
        await edge.start()
        stack.push_async_callback(edge.close)
        self.listening = await listen(
            app, host, port, base_path=prefix, drain_s=config.server.drain_timeout_s
        )
        stack.push_async_callback(self.listening.close)
        self.edge = edge
        return self.listening

    async def _rest(
        self, stack: AsyncExitStack, edge: HttpEdge, accounts: Accounts
    ) -> RestServices:
        config = self.loaded.config
        agent: RetrievalAgent | None = None
        if self.retriever is not None:
            agent = await open_agent(self.loaded, self.retriever, None, stack)
        return RestServices(
            engine=RestEngine(lambda: self.retriever),
            accounts=accounts,
            authenticator=edge.authenticator,
            catalog=lambda: self.gateway.view.catalog,
            policy=lambda: self.gateway.view.policy,
            upstreams=self._upstream_states,
            agent=agent,
            gate=edge.admission,
            limits=RestLimits(body_bytes=config.server.limits.body_bytes),
            base_path=base_path(config),
            variant=lambda: variant(self.loaded.config),
            api_keys=config.security.api_keys,
            info={"title": "Armory", "version": armory_version()},
        )

    def _upstream_states(self) -> dict[str, UpstreamInfo]:
        return {
            key: UpstreamInfo(found.state, found.error, found.era, found.protocol_version)
            for key, found in self.supervisor.status().items()
        }

    async def reload(self, loaded: Loaded) -> Reloaded:
        """Put a new configuration in force as far as that goes without a restart.

        Upstreams that did not change keep their sessions; calls in flight end.

        Raises:
            ConfigError: it does not hold; nothing has changed then.
        """
        old, new = self.loaded.config, loaded.config
        parts = reloadable(loaded, self._packs())
        authenticator(new, schemes(new, self.accounts))
        settings = retriever_settings(new.tool_rag, loaded.home)
        report = _difference(old, new)
        policy = Policy() if self._trusted else parts.policy
        if self.retriever is not None:
            self.retriever.settings = settings
        self.gateway.reconfigure(policy=policy, settings=parts.gateway)
        await self.supervisor.update(parts.specs)
        self.keeper.reconfigure(parts.rules)
        self.loaded = loaded
        return report

    # -- figures -----------------------------------------------------------------------------

    def readiness(self) -> Readiness:
        """What `/readyz` says."""
        status = self.supervisor.status()
        details = {
            "upstreams": {
                key: {"state": found.state, "tools": found.tools, "error": found.error}
                for key, found in status.items()
            },
            "tools": len(self.gateway.view.catalog.tools),
        }
        missing: list[str] = []
        if not self._snapshot.is_set():
            missing.append("first snapshot: upstreams are still connecting")
        missing += [
            f"upstream {key}: {found.error or found.state}"
            for key, found in status.items()
            if found.state != "ready"
        ]
        degraded = self.retriever.degraded if self.retriever is not None else None
        if degraded:
            missing.append(f"retrieval: {degraded}")
        all_down = bool(status) and not self.gateway.view.catalog.servers
        return Readiness(self._snapshot.is_set() and not all_down, tuple(missing), details)

    def _metrics_text(self) -> tuple[bytes, str]:
        return self.metrics.text(), CONTENT_TYPE

    def _upstream_figures(self) -> dict[str, UpstreamFigures]:
        pool = self.pool.status()
        return {
            key: UpstreamFigures(
                up=found.state == "ready",
                tools=found.tools,
                sessions=pool[key].sessions,
                in_flight=pool[key].in_flight,
                queued=pool[key].queued,
                breaker=pool[key].breaker,
            )
            for key, found in self.supervisor.status().items()
            if key in pool
        }

    def _edge_figures(self) -> EdgeFigures | None:
        if self.edge is None:
            return None
        return EdgeFigures(
            sessions=len(self.edge.sessions),
            streams=self.edge.streams,
            parked=self.edge.interactions.parked,
        )


def _difference(old: Config, new: Config) -> Reloaded:
    """Which blocks differ, by whether they can be swapped."""
    report = Reloaded()
    for block in Config.model_fields:
        before, after = getattr(old, block), getattr(new, block)
        if before == after:
            continue
        if block in _RESTART_BLOCKS:
            report.needs_restart.append(block)
            continue
        fixed = _FIXED_KEYS.get(block, ())
        changed = [key for key in fixed if getattr(before, key) != getattr(after, key)]
        report.needs_restart += [f"{block}.{key}" for key in changed]
        unfixed = {key: getattr(before, key) for key in changed}
        if not changed or after.model_copy(update=unfixed) != before:
            report.applied.append(block)
    return report


@asynccontextmanager
async def open_runtime(
    loaded: Loaded,
    *,
    address: tuple[str, int] | None = None,
    trusted: bool = False,
    on_progress: Progress | None = None,
) -> AsyncGenerator[Runtime]:
    """A running gateway for as long as the context lasts.

    Upstreams begin to connect, then the port is bound, so that health answers from the start;
    requests to MCP endpoints wait for the first snapshot. Leaving drains and closes in reverse.

    Args:
        loaded: the configuration.
        address: (host, port) to listen on; None: serve nobody (`Runtime.gateway` can be used).
        trusted: whether policies are left out, for the operator's own commands.
        on_progress: called with (texts embedded, texts to embed) while tools are indexed.

    Raises:
        ConfigError: something in the configuration does not work out here.
    """
    runtime = Runtime(loaded, trusted=trusted, on_progress=on_progress)
    async with AsyncExitStack() as stack:
        if runtime.accounts is not None:
            await stack.enter_async_context(opened(runtime.accounts))
        stack.push_async_callback(runtime.stop_upstreams)
        await runtime.start_upstreams()
        if address is not None:
            await runtime.listen(stack, *address)
        yield runtime
