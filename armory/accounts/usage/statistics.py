"""Usage statistics: counted for every forwarded call, served from memory, stored in the background.

Owns: counting, flushing, and what ranking reads. `UsageStatistics` satisfies
`retrieval.ports.UsageSource`. Never on the path of a call: `called` only adds to counters, and a
crash loses at most what was counted since the last flush.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from armory.accounts.usage.store import (
    TOOLS_OF_USER,
    Counted,
    ToolStatistics,
    UsageStore,
    UserTool,
    day_of,
    first_day,
)
from armory.domain.naming import split_name
from armory.errors import BackendError
from armory.logger import Logger
from armory.retrieval.rankers.factors import (
    UNMEASURED,
    history,
    performance,
    popularity,
    usage_percentile,
)
from armory.storage.database import Database, now_ms
from armory.tasks import Flights

if TYPE_CHECKING:
    from armory.retrieval.ports import UsageArrays

_log = Logger(__name__)
WINDOW_DAYS = 30
"""Days over which tools and servers are judged; a user's own history is stored for good, within
`store.TOOLS_OF_USER` and `store.ROWS_KEPT`."""
TOOLS_KEPT = 100_000
"""Tools whose statistics are in memory, those that were used last."""
USERS_KEPT = 5_000
"""Users whose history is in memory, those that asked last."""
_RECALL_S = 1.0
_RETRY_S = 10.0
"""Pause after a failed read of a history, since each search would wait for the next failure."""
_DAY_MS = 86_400_000
_PENDING_KEPT = 200_000
_AT_ONCE = 64
_Row = TypeVar("_Row", ToolStatistics, UserTool)
_Call = tuple[str, str, bool, float, int]
"""User, tool, whether it went well, milliseconds, when."""


class UsageStatistics:
    """The statistics of one database.

    What `statistics` gives is as of the last `refresh`: calls of this and of other processes
    enter it together.

    Args:
        database: where they are stored.
        tools: names of the tools in the catalog, among which the percentile is; none: those that
            were used.
        now_ms: the time, milliseconds since 1970.
        users_kept: see `USERS_KEPT`.
        tools_kept: see `TOOLS_KEPT`.
        tools_of_user: see `store.TOOLS_OF_USER`.
    """

    def __init__(
        self,
        database: Database,
        *,
        tools: Callable[[], Collection[str]] = tuple,
        now_ms: Callable[[], int] = now_ms,
        users_kept: int = USERS_KEPT,
        tools_kept: int = TOOLS_KEPT,
        tools_of_user: int = TOOLS_OF_USER,
    ) -> None:
        self._rows = UsageStore(database, tools_of_user=tools_of_user)
        self._tools_kept = tools_kept
        self._tools_of_user = tools_of_user
        self._offered = tools
        self._now_ms = now_ms
        self._tools: dict[str, ToolStatistics] = {}
        self._since: int | None = None
        self._users: OrderedDict[str, dict[str, UserTool]] = OrderedDict()
        self._users_kept = users_kept
        self._reading: Flights[dict[str, UserTool]] = Flights()
        self._forgotten = 0
        self._again_at = 0.0
        self._uptimes: Mapping[str, float] = {}
        self._used: Sequence[int] = ()
        self._used_of = 0
        self._new_tools: dict[tuple[str, int], Counted] = {}
        self._new_users: dict[tuple[str, str], Counted] = {}
        self._new_servers: dict[tuple[str, int], tuple[int, int]] = {}
        self._storing: dict[tuple[str, str], Counted] = {}
        self._waiting: list[_Call] = []
        self.dropped = 0

    # -- counting ----------------------------------------------------------------------------

    def called(self, user: str, tool: str, *, ok: bool, latency_ms: float) -> None:
        """Count one call. Neither blocks nor raises; what cannot be kept is counted as dropped."""
        waiting = self._waiting
        waiting.append((user, tool, ok, latency_ms, self._now_ms()))
        if len(waiting) >= _AT_ONCE:
            self._take_in()

    def _take_in(self) -> None:
        """Process the pending calls, those of the same user, tool and day together, which costs
        less.
        """
        waiting, self._waiting = self._waiting, []
        alike: dict[tuple[str, str, int], list[_Call]] = defaultdict(list)
        for call in waiting:
            alike[call[0], call[1], call[4] // _DAY_MS].append(call)
        for (user, tool, _), calls in alike.items():
            self._count(user, tool, calls)

    def _count(self, user: str, tool: str, calls: list[_Call]) -> None:
        _, _, successes, latencies, times = zip(*calls, strict=True)
        uses, succeeded, last = len(calls), sum(successes), times[-1]
        key = (tool, day_of(last))
        counted = self._new_tools.get(key)
        if counted is None:
            if len(self._new_tools) >= _PENDING_KEPT:  # the database is away for very long
                self.dropped += uses
                return
            counted = self._new_tools[key] = Counted()
        counted.count(uses, succeeded, last)
        counted.latency.add(*latencies)
        mine = self._new_users.get((user, tool))
        if mine is None:
            if len(self._new_users) >= _PENDING_KEPT:
                self.dropped += uses
                return
            mine = self._new_users[user, tool] = Counted()
        mine.count(uses, succeeded, last)

    def observed(self, up: Mapping[str, bool], elapsed_ms: int) -> None:
        """Record which servers were up during the last `elapsed_ms` milliseconds."""
        day = day_of(self._now_ms())
        for server, is_up in up.items():
            up_ms, seen_ms = self._new_servers.get((server, day), (0, 0))
            up_ms += elapsed_ms if is_up else 0
            self._new_servers[server, day] = (up_ms, seen_ms + elapsed_ms)

    @property
    def waiting(self) -> int:
        """The number of calls that are counted and not stored yet."""
        return len(self._waiting) + sum(counted.uses for counted in self._new_tools.values())

    async def flush(self) -> None:
        """Store the counts; if that fails, they are kept for the next time.

        Raises:
            BackendError: the database failed.
        """
        self._take_in()
        tools, users, servers = self._new_tools, self._new_users, self._new_servers
        if not (tools or users or servers):
            return
        self._new_tools, self._new_users, self._new_servers = {}, {}, {}
        self._storing = users
        try:
            await self._rows.add(tools, users, servers)
        except BaseException:  # also where the end does not wait any more: it tells how many
            self._take_back(tools, users, servers)
            raise
        finally:
            self._storing = {}

    def _take_back(
        self,
        tools: dict[tuple[str, int], Counted],
        users: dict[tuple[str, str], Counted],
        servers: dict[tuple[str, int], tuple[int, int]],
    ) -> None:
        for key, counted in self._new_tools.items():
            tools.setdefault(key, Counted()).add(counted)
        for key, counted in self._new_users.items():
            users.setdefault(key, Counted()).add(counted)
        for key, (up_ms, seen_ms) in self._new_servers.items():
            before = servers.get(key, (0, 0))
            servers[key] = (before[0] + up_ms, before[1] + seen_ms)
        self._new_tools, self._new_users, self._new_servers = tools, users, servers

    async def refresh(self) -> None:
        """Load what this and other processes have stored since the last time.

        Raises:
            BackendError: the database failed.
        """
        since = first_day(self._now_ms(), WINDOW_DAYS)
        # a day that leaves the window changes no row
        anew = since != self._since
        changed = await self._rows.changed_tools(since, anew=anew)
        if anew:
            self._tools, self._since = {}, since
        if len(changed) > self._tools_kept:
            changed = dict(sorted(changed.items(), key=lambda item: item[1].last_used_at_ms))
        _put_last(self._tools, changed, self._tools_kept)
        offered = self._offered()
        if changed or anew or id(offered) != self._used_of:  # it is not kept for comparing
            self._used, self._used_of = _uses_of(self._tools, offered), id(offered)
        of_users: dict[str, dict[str, UserTool]] = {}
        for (user, tool), row in (await self._rows.changed_users()).items():
            of_users.setdefault(user, {})[tool] = row
        for user, rows in of_users.items():
            if (known := self._users.get(user)) is not None:
                _put_last(known, rows, self._tools_of_user)
        self._uptimes = await self._rows.uptimes(since)

    async def prune(self) -> None:
        """Delete what is older than two windows.

        Raises:
            BackendError: the database failed.
        """
        await self._rows.prune(first_day(self._now_ms(), 2 * WINDOW_DAYS))

    def forget(self, user: str) -> None:
        """Forget a deleted user: a later user of that name is somebody else."""
        self._users.pop(user, None)
        self._reading.forget(user)
        self._forgotten += 1
        self._waiting = [call for call in self._waiting if call[0] != user]
        for counts in (self._new_users, self._storing):
            for key in [key for key in counts if key[0] == user]:
                del counts[key]

    # -- what is known -----------------------------------------------------------------------

    def tool(self, name: str) -> ToolStatistics | None:
        """The statistics of a tool; None if it was not used within the window."""
        return self._tools.get(name)

    def tools(self) -> Mapping[str, ToolStatistics]:
        """The statistics by tool."""
        return dict(self._tools)

    async def of_user(self, user: str) -> Mapping[str, UserTool]:
        """One user's usage by tool.

        Raises:
            BackendError: it is not in memory, and the database failed.
        """
        known = self._users.get(user)
        if known is None:
            return dict(await self._read(user))
        self._users.move_to_end(user)
        return dict(known)

    async def recall(self, user: str) -> None:
        """Load a user's history into memory, for `statistics`; returns without it if that takes
        long.
        """
        if user in self._users:
            self._users.move_to_end(user)
            return
        if time.monotonic() < self._again_at:
            return
        try:
            async with asyncio.timeout(_RECALL_S):
                await self._read(user)
        except (BackendError, TimeoutError) as error:
            self._again_at = time.monotonic() + _RETRY_S
            _log.warning("history_not_read", error=str(error) or "no answer in time")

    async def _read(self, user: str) -> dict[str, UserTool]:
        return await self._reading.join(user, lambda: self._load(user))

    async def _load(self, user: str) -> dict[str, UserTool]:
        before = self._forgotten
        found = await self._rows.of_user(user)
        if before == self._forgotten:  # else it may be of somebody who was called so before
            self._users[user] = found
            while len(self._users) > self._users_kept:
                self._users.popitem(last=False)
        return found

    def uptime(self, server: str) -> float:
        """Share of observed time that a server was up, in [0, 1]; 1 when never observed."""
        return self._uptimes.get(server, 1.0)

    def uptime_behind(self, tool: str) -> float:
        """The uptime of the server that a tool belongs to; see `uptime`."""
        server = split_name(tool)
        return self.uptime(server[0]) if server is not None else 1.0

    def statistics(self, user: str | None, names: Sequence[str]) -> UsageArrays:
        """Popularity over all, history of this user where it is in memory (`recall`), performance
        of each named tool.
        """
        import numpy as np  # commands that only keep accounts rank nothing

        from armory.retrieval.ports import UsageArrays

        mine = self._users.get(user, {}) if user is not None else {}
        now = self._now_ms()
        total = len(self._offered())
        shape = len(names)
        popular = np.zeros(shape, np.float32)
        known = np.zeros(shape, np.float32)
        performing = np.full(shape, UNMEASURED, np.float32)
        for i, name in enumerate(names):
            stats = self._tools.get(name)
            if stats is not None and stats.uses:
                share = usage_percentile(stats.uses, self._used, total)
                popular[i] = popularity(share, stats.success_rate)
                uptime = self.uptime_behind(name)
                performing[i] = performance(stats.p99_ms, stats.error_rate, uptime)
            own = mine.get(name)
            if own is not None:
                days = (now - own.last_used_at_ms) / _DAY_MS
                known[i] = history(own.uses, own.successes, days)
        return UsageArrays(popular, known, performing)


def _uses_of(used: Mapping[str, ToolStatistics], offered: Collection[str]) -> list[int]:
    """Ascending uses of the tools that were used, of those that are offered: what was renamed or
    removed lives on in the statistics for a whole window.
    """
    return sorted(s.uses for name, s in used.items() if s.uses and (not offered or name in offered))


def _put_last(rows: dict[str, _Row], changed: Mapping[str, _Row], kept: int) -> None:
    """Put rows behind all others; of more than `kept` the first go, all in one look: a table whose
    first entries went one by one is searched past their places each time.
    """
    for name, row in changed.items():
        rows.pop(name, None)
        rows[name] = row
    for name in [*islice(rows, max(0, len(rows) - kept))]:
        del rows[name]
