"""The running gateway: its parts, put together.

Owns: the parts, starting and stopping them, and swapping them at a reload. `assembling` says in
which order they open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from armory.accounts.opening import Opening
from armory.accounts.registered_tools import WithRegisteredTools
from armory.accounts.scopes import PackScopes
from armory.config import Config, Loaded
from armory.domain.principal import Principal
from armory.feedback.attribution import QueryAttribution
from armory.gateway.events import EventFanOut
from armory.gateway.gateway import Gateway, Services
from armory.gateway.settings import GatewaySettings
from armory.gateway.tasks.register import TaskRegister
from armory.observability.activity import Activity
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.candidates import Experience
from armory.retrieval.settings import RetrieverSettings
from armory.runtime.blocks.accounts import make_accounts, schemes
from armory.runtime.blocks.authentication import authenticator
from armory.runtime.blocks.chat import chat_of
from armory.runtime.blocks.learning import learning_of
from armory.runtime.blocks.people import follow_logins, logs_people_in, vault_of
from armory.runtime.blocks.pins import follow_approvals, pinning_mode
from armory.runtime.blocks.secrets import hide_secrets
from armory.runtime.blocks.watching import watched
from armory.runtime.catalog.keeper import CatalogKeeper
from armory.runtime.entry.home_watch import HomeWatch
from armory.runtime.figures import Figures
from armory.runtime.limits import Limits
from armory.runtime.memory.allocator import give_back
from armory.runtime.reloading import Reloaded, difference, in_force
from armory.runtime.replicas.shared import Shared
from armory.runtime.rereading import Rereading
from armory.runtime.retrieval import Progress, open_retriever, retriever_settings
from armory.runtime.settings import Reloadable, activity_settings, reloadable
from armory.runtime.version import armory_version
from armory.security.pinning import Pinning
from armory.security.policy import Policy
from armory.tasks import spawn, stop
from armory.upstreams.pool import Pool
from armory.upstreams.session.inflow import Inflow
from armory.upstreams.supervisor import Supervisor
from armory.web.app import Listening
from armory.wire.http.edge import HttpEdge
from armory.wire.observed import Observers

if TYPE_CHECKING:
    from armory.agent.documents import DocumentSource
    from armory.agent.loop import RetrievalAgent

FIRST_SNAPSHOT_S = 10.0
"""How long the first snapshot waits for upstreams that have neither answered nor failed."""


class Runtime:
    """A running gateway. Created by `opening.open_runtime`.

    Attributes:
        loaded: the configuration in force: as read last, what takes a restart as `started`.
        started: the one that it began with: what takes a restart is as it says.
        gateway: the request path.
        accounts: users, keys, packs, statistics; None for the operator's own commands.
        pool, supervisor: the upstreams.
        retriever: None where Tool RAG is off.
        agent: the retrieval agent; None where it is off.
        documents: what it searches beside the tools; None: nothing.
        attribution: remembers queries; None where nothing is learned from use.
        limits: how often each caller may ask.
        figures: what health and metrics read.
        activity: the latest calls and queries; None for the operator's own commands.
        edge: MCP over HTTP; None while nothing listens.
        listening: the bound server; None likewise.
        joined: what it shares with other replicas.
        observers: who watches what clients ask.
        pinning: withholds tools whose definition changed.
        rereading: reads the file again, and knows whether what it holds now is refused.
        first_snapshot: set when the first snapshot is served.
        home: whether the folder of Armory's data can be used.
        opening: whether the accounts are open; None before and for the operator's own commands.
        leaving: whether it is about to end.
    """

    def __init__(
        self,
        loaded: Loaded,
        joined: Shared,
        pinning: Pinning,
        *,
        trusted: bool = False,
        on_progress: Progress | None = None,
        observers: Observers | None = None,
    ) -> None:
        hide_secrets(loaded.config)
        self.joined = joined
        self.observers = observers or Observers()
        tools, up = self._tools, self._upstreams_up
        accounts = None if trusted else make_accounts(loaded, tools=tools, upstreams=up)
        self.accounts = accounts
        parts = reloadable(loaded, self.packs())
        self.loaded, self.started = loaded, loaded.config
        self.rereading = Rereading(loaded.path, self.reload)
        self.agent: RetrievalAgent | None = None
        self.documents: DocumentSource | None = None
        self.edge: HttpEdge | None = None
        self.listening: Listening | None = None
        self.opening: Opening | None = None
        self.leaving = False
        self.pool = Pool(
            parts.specs,
            client_info={"name": "armory", "version": armory_version()},
            inflow=Inflow(loaded.config.server.limits.inflow_bytes, self._unread),
            outflow_bytes=loaded.config.server.limits.outflow_bytes,
            concurrent_starts=loaded.config.server.limits.concurrent_starts,
            vault=vault_of(loaded, accounts) if accounts and logs_people_in(parts.specs) else None,
        )
        self.home = HomeWatch(loaded.home, accounts.database.file if accounts else None)
        self._chat, generator = chat_of(loaded)
        self.learning = learning_of(loaded, accounts, lambda: self.retriever)
        self.retriever: Retriever | None = open_retriever(
            loaded,
            shared=joined.store,
            on_progress=on_progress,
            experience=Experience(
                usage=accounts.usage if accounts else None,
                memory=self.learning.uses if self.learning else None,
            ),
            generator=generator,
            on_written=None if trusted else lambda: self.keeper.build_again(),
        )
        self.figures = Figures(
            self.pool,
            lambda: self.supervisor,
            lambda: self.edge,
            lambda: self.listening,
            lambda: self.retriever,
            joined.watch,
            None if self.accounts is None else self.database_away,
        )
        self.figures.refused = lambda: bool(self.rereading.refused)
        self._trusted = trusted
        limited = self.figures.metrics.limited
        self.limits = Limits(loaded.config, accounts, limited, joined.counts)
        self.indexing: WithRegisteredTools | None = None
        if self.retriever is not None and accounts is not None:
            self.indexing = WithRegisteredTools(self.retriever, accounts.registry, accounts.feed)
        self.pinning = pinning
        self.keeper = CatalogKeeper(
            self.indexing or self.retriever,
            parts.rules,
            self.pinning,
            give_back,
            self.retriever.examples if self.retriever is not None and generator else None,
        )
        self.supervisor = Supervisor(self.pool, self.keeper.changed)
        redact = self.accounts.query_log.redacted if self.accounts else str
        self.activity = None if trusted else Activity(redact, activity_settings(loaded.config))
        self.attribution = (
            QueryAttribution(alone=joined.replicas is None) if self.learning else None
        )
        self.gateway = self._request_path(Policy() if trusted else parts.policy, parts.gateway)
        self.pool.observers.add(self.gateway)
        if accounts is not None:
            follow_logins(accounts, self.pool, self.gateway.principal_lists)
            accounts.scopes.observe(self.gateway.changes.tell_user)
            follow_approvals(accounts, self.keeper)
        self.first_snapshot = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None

    def _request_path(self, policy: Policy, settings: GatewaySettings) -> Gateway:
        sinks = (self.figures.metrics, self.accounts, self.learning, self.activity)
        tasks = TaskRegister(
            self.joined.store,
            per_principal=self.loaded.config.server.limits.tasks_per_principal,
        )
        if self.joined.replicas is not None:
            self.joined.replicas.tells.append(tasks.tell)
        services = Services(
            limiter=self.limits,
            events=EventFanOut([sink for sink in sinks if sink]),
            contents=self.activity is not None and self.activity.keeps_contents,
            attribution=self.attribution,
            finder=lambda: self.agent,
            relist=self.relist,
            on_compacted=self.figures.metrics.compacted,
            on_dropped=self.figures.metrics.notification_dropped,
            private_tools=self.keeper,
            tasks=tasks,
        )
        if self.observers.audit is not None:
            self.figures.watch_audit(self.observers.audit)
        pool, retriever = watched(
            self.pool, self.retriever, self.observers, lambda: self.gateway.view.catalog.version
        )
        return Gateway(pool, retriever, policy, settings, services)

    def _unread(self) -> int:
        return self.listening.connections.unread if self.listening is not None else 0

    def _tools(self) -> Collection[str]:
        return self.gateway.view.catalog.tools

    def _upstreams_up(self) -> dict[str, bool]:
        """Which upstreams are up, of those that have answered or failed: what a start takes is no
        time in which they were down.
        """
        status = self.supervisor.status()
        return {key: found.up for key, found in status.items() if found.state != "connecting"}

    def packs(self) -> PackScopes | None:
        """The active packs of each user; None where accounts do not narrow anything."""
        accounts = self.accounts
        return accounts.scopes if accounts is not None and accounts.enabled else None

    async def admit(self, principal: Principal) -> None:
        """Load what policy needs of the principal's account into memory.

        Raises:
            AuthenticationFailed: the account is switched off.
        """
        packs = self.packs()
        if packs is not None:
            await packs.admit(principal)

    async def start_upstreams(self) -> None:
        """Start connecting to all upstreams; returns at once."""
        gateway = self.gateway
        self.keeper.start(self.supervisor.lists, gateway.publish, gateway.prepare)
        await self.supervisor.start()
        self._starting = spawn(self._wait_first(), "first snapshot")

    async def _wait_first(self) -> None:
        await self.supervisor.wait_first(None if self._trusted else FIRST_SNAPSHOT_S)
        await self.keeper.settle()
        self.first_snapshot.set()

    async def relist(self, server: str) -> None:
        """Fetch one upstream's lists again and update the snapshot."""
        await self.supervisor.refresh(server)
        await self.keeper.settle()

    async def ready(self) -> None:
        """Wait until the first snapshot is served: every upstream has answered, failed, or run out
        of time.
        """
        if not self.first_snapshot.is_set():
            await self.first_snapshot.wait()

    async def searchable(self) -> None:
        """Wait until all tools of the reachable upstreams are served and searchable."""
        await self.ready()
        await self.supervisor.wait_first(None)
        await self.keeper.settle()
        await self.keeper.searchable()

    async def stop_upstreams(self) -> None:
        """End every task, process and connection toward upstreams."""
        await stop(self._starting)
        await self.rereading.stop()
        await self.supervisor.stop()
        await self.gateway.close()
        await self.limits.close()
        await self.keeper.stop()
        if self.indexing is not None:
            await self.indexing.close()
        await self.pool.close()
        if self.retriever is not None:
            await self.retriever.aclose()
        if self._chat is not None:
            await self._chat.close()

    def database_away(self) -> str:
        """Why the accounts database is unavailable; "": it is available, or not used."""
        if self.accounts is None:
            return ""
        return (self.opening.away if self.opening else None) or self.accounts.problem

    async def leave(self, delay_s: float) -> None:
        """Prepare to shut down: `/readyz` reports not ready, new requests are still served, and
        each connection is closed after its answer.
        """
        self.leaving = True
        if self.listening is not None:
            self.listening.leave()
        await asyncio.sleep(delay_s)

    async def reload(self, loaded: Loaded, *, dry_run: bool = False) -> Reloaded:
        """Apply a new configuration as far as that works without a restart.

        Upstreams that did not change keep their sessions; calls in flight finish.

        Args:
            loaded: the new configuration.
            dry_run: only say what would become of it.

        Raises:
            ConfigError: it does not hold; nothing has changed then.
        """
        # thousands of policies and a large file of definitions take a second
        made = await asyncio.to_thread(self._made_of, loaded, self.loaded.config)
        report, loaded, parts, settings = made
        config = loaded.config
        report.sort(self.pool.specs(), parts.specs)
        if dry_run:
            return report
        mode = pinning_mode(config, trusted=self._trusted)
        await asyncio.to_thread(self.pinning.reopen, mode, config.upstreams)
        policy = Policy() if self._trusted else parts.policy
        if self.retriever is not None:
            self.retriever.settings = settings
        self.gateway.reconfigure(policy=policy, settings=parts.gateway)
        self.limits.reconfigure(config)
        await self.supervisor.update(parts.specs)
        self.keeper.reconfigure(parts.rules)
        self.loaded = loaded
        self.figures.metrics.forget(report.removed)
        self.rereading.on_reloaded(report)
        return report

    def _made_of(
        self, loaded: Loaded, last: Config
    ) -> tuple[Reloaded, Loaded, Reloadable, RetrieverSettings]:
        """All that a reload needs of a new configuration, in any thread."""
        new = loaded.config
        hide_secrets(new)
        hide_secrets(last)  # in force still, and so forgotten last
        authenticator(new, schemes(new, self.accounts))
        report = difference(self.started, last, new)
        loaded = replace(loaded, config=in_force(self.started, new))
        parts = reloadable(loaded, self.packs())
        settings = retriever_settings(loaded.config.tool_rag, loaded.home)
        self.pinning.check(pinning_mode(loaded.config, trusted=self._trusted))
        return report, loaded, parts, settings
