"""Accounts as one object, opened by the runtime and kept running by one task.

Owns: the parts that share one database and one cache, and the flush intervals. Satisfies
`gateway.ports.ToolEvents` and `runtime.limits.Plans`; its `keys` are a `Scheme`, its `scopes` or
`switched_off` the `Admission` of `security.authentication`, `scopes` the `Packs` of
`security.policy`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from uuid import uuid4

from armory.accounts.keys import ApiKeys
from armory.accounts.packs import Packs
from armory.accounts.plans import PlanUsage, Standing
from armory.accounts.query_log import QueryLog, QueryRecord
from armory.accounts.registry import ToolRegistry
from armory.accounts.scopes import PackScopes
from armory.accounts.settings import AccountSettings
from armory.accounts.switched_off import SwitchedOff
from armory.accounts.usage.statistics import UsageStatistics
from armory.accounts.users import DELETED, Users
from armory.domain.principal import Principal
from armory.domain.results import CallOutcome, Listing
from armory.ending import at_most
from armory.errors import BackendError
from armory.logger import Logger
from armory.storage.cache import Cache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.tasks import Flight

_log = Logger(__name__)
FLUSH_S = 2.0
REFRESH_S = 10.0
PRUNE_S = 3_600.0
_END_S = 2.0
"""How long the end waits for a database that does not answer: whoever supervises the process kills
it after a while, and the audit needs its time, too."""
SEARCHES = frozenset(("search_tools", "find_tools"))
"""Tools of the gateway itself, a call of which is a retrieval query."""


class Accounts:
    """Users, keys, packs, statistics, plans and the query log of one database.

    `open()`, then `run()` in an owner task for as long as the process serves, then `close()`.

    Args:
        database: opened and closed here.
        cache: likewise.
        settings: see `AccountSettings`.
        tools: names of the tools in the catalog.
        upstreams: which servers are up now, for uptimes, of those that have started.
    """

    def __init__(
        self,
        database: Database,
        cache: Cache,
        settings: AccountSettings | None = None,
        *,
        tools: Callable[[], Collection[str]] = tuple,
        upstreams: Callable[[], Mapping[str, bool]] = dict,
    ) -> None:
        self.settings = settings or AccountSettings()
        self.database = database
        self.cache = cache
        self._upstreams = upstreams
        self.feed = ChangeFeed(database, cache)
        plan = self.settings.default_plan
        plans = self.settings.plans
        self.users = Users(database, self.feed, default_plan=plan, plans=plans)
        self.keys = ApiKeys(database, cache, self.feed)
        self.packs = Packs(database, self.feed, self.users)
        self.scopes = PackScopes(database, self.feed)
        self.switched_off = SwitchedOff(database, self.feed)
        self.registry = ToolRegistry(database, self.feed)
        self.plans = PlanUsage(database, self.feed, plans=plans, default_plan=plan)
        self.usage = UsageStatistics(database, tools=tools)
        self.query_log = QueryLog(
            database,
            enabled=self.settings.query_log,
            retention_days=self.settings.retention_days,
            redact=self.settings.redact,
        )
        self.feed.subscribe(DELETED, self._user_deleted, replayed=False)
        self._observed_at = time.monotonic()
        self._flushing: Flight[None] = Flight("store what was counted")
        self._failing: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """The last error of the database; empty while it works."""
        return self.feed.problem or self._failing.get("flush", "")

    @property
    def enabled(self) -> bool:
        """Whether packs narrow what users see, and plans count."""
        return self.settings.enabled

    async def open(self, *, statistics: bool = True) -> None:
        """Open the database, migrate it, and load what is served from memory.

        Args:
            statistics: whether those of tools are read, too, which takes seconds after a year.

        Raises:
            BackendError: the database cannot be reached.
            ConfigError: it was written by a newer Armory.
        """
        await self.database.open()
        await self.switched_off.load()
        await self.registry.load()
        if statistics:
            await self.usage.refresh()

    async def close(self) -> None:
        """Store what is still queued and close everything. `run()` must have ended."""
        try:
            async with asyncio.timeout(at_most(_END_S)):
                if self._flushing.under_way:  # `run` was cancelled meanwhile
                    await self._try("flush", self._store)
                await self._try("flush", self._store)
        except TimeoutError:
            await self._flushing.stop()
            self._failing["flush"] = "no answer in time"
        self._tell_lost(self.usage.waiting, self.plans.waiting, len(self.query_log))
        await self.cache.aclose()
        await self.database.close()

    async def run(self) -> None:
        """Receive changes, flush, refresh and prune, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.feed.run(), name="accounts: changes")
            group.create_task(self._every(FLUSH_S, "flush", self._flush_observed))
            group.create_task(self._every(REFRESH_S, "refresh", self.usage.refresh))
            # soon after the start: a process that never lasts for an hour prunes, too
            group.create_task(self._every(PRUNE_S, "prune", self._prune, first_s=FLUSH_S))

    async def flush(self) -> None:
        """Store statistics, counts and the query log now. Runs to its end even if cancelled: a
        partial flush would count twice or lose data.

        Raises:
            BackendError: the database failed; nothing is lost.
        """
        await self.feed.poll()  # nothing of a user whom another process has just deleted
        await self._store()

    async def _store(self) -> None:
        await self._flushing.join(self._flush)

    async def _flush(self) -> None:
        await self.usage.flush()
        await self.plans.flush()
        await self.query_log.flush()
        self._tell_lost(0, 0, 0)

    def _tell_lost(self, calls: int, quota: int, queries: int) -> None:
        """Log how much is not stored and will be lost, and what was dropped."""
        calls, queries = calls + self.usage.dropped, queries + self.query_log.dropped
        self.usage.dropped = self.query_log.dropped = 0
        if calls or quota or queries:
            _log.error(
                "statistics_lost",
                error=self._failing.get("flush", "the database was away for too long"),
                calls=calls,
                queries_of_plans=quota,
                queries_logged=queries,
            )

    # -- runtime.limits.Plans ----------------------------------------------------------------

    async def acquire(self, principal: Principal, method: str, name: str) -> None:
        """Count a retrieval query against the user's plan; other methods pass.

        A database that is away limits nobody here: a listing must not fail for it.

        Raises:
            RateLimited: the plan's queries are used up.
        """
        if method == "tools/list" or name in SEARCHES:
            try:
                await self.spend(principal)
            except BackendError as error:
                _log.warning("quota_not_checked", error=error.message)

    async def spend(self, principal: Principal) -> Standing | None:
        """Count one query of the principal's user; None where plans do not apply.

        Raises:
            RateLimited: the plan's queries are used up.
        """
        if not self.enabled or principal.user is None:
            return None
        return await self.plans.spend(principal.user)

    # -- gateway.ports.ToolEvents ------------------------------------------------------------

    def called(self, principal: Principal, call: CallOutcome) -> None:
        """Count one call; a cancelled or unsent call says nothing about its tool."""
        if call.ok is not None and call.sent:
            self.usage.called(principal.owner, call.tool, ok=call.ok, latency_ms=call.latency_ms)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """Record one query."""
        query = listing.query
        if query is None:
            return
        self.query_log.add(
            QueryRecord(
                query_id=uuid4().hex,
                user=principal.user,
                surface=f"mcp:{query.source}",
                query="\n".join(query.texts),
                returned=listing.selected,
                visible=listing.visible,
                top_score=listing.top_score,
                took_ms=listing.latency_ms,
                degraded=listing.degraded,
            )
        )

    async def _user_deleted(self, user: str) -> None:
        self.usage.forget(user)
        self.plans.forget(user)
        self.query_log.forget(user)

    # -- the rhythm --------------------------------------------------------------------------

    async def _flush_observed(self) -> None:
        now = time.monotonic()
        elapsed_ms = int((now - self._observed_at) * 1000)
        self._observed_at = now
        self.usage.observed(self._upstreams(), elapsed_ms)
        await self.flush()

    async def _prune(self) -> None:
        await self.feed.prune()
        await self.query_log.prune()
        await self.usage.prune()
        await self.plans.prune()

    async def _every(
        self,
        pause_s: float,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        first_s: float | None = None,
    ) -> None:
        await asyncio.sleep(pause_s if first_s is None else first_s)
        while True:
            await self._try(name, work)
            await asyncio.sleep(pause_s)

    async def _try(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run one piece of work; a repeated failure is logged once."""
        try:
            await work()
        except BackendError as error:
            if self._failing.get(name) != error.message:
                _log.warning("accounts_task_failed", task=name, error=error.message)
            self._failing[name] = error.message
        else:
            if self._failing.pop(name, ""):
                _log.info("accounts_task_works_again", task=name)
