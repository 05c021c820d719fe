"""Plans: how many queries a month each user may make, and how many are left.

Owns: counting and refusing. What counts is a retrieval query, over REST or MCP; a listing without
a query and a tool call count nothing. Satisfies nothing above: the surfaces ask.

The count is kept in memory and added to the database a few times a second; what other replicas
count is read every ten seconds. So a limit may be passed by what the others admit in that time.
"""

from __future__ import annotations

import calendar
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cachetools import LRUCache
from sqlalchemy import delete, select

from armory.accounts.users import USER
from armory.domain.principal import OWNER_CHARS
from armory.errors import BackendError, RateLimited
from armory.logger import Logger
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.tables import query_months, users
from armory.tasks import Flights

_log = Logger(__name__)
TTL_S = 10.0
_MONTH_S = 31 * 86_400
USERS_KEPT = 20_000
"""Users whose standing is kept in memory, the latest ones."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A user's plan and usage.

    Attributes:
        plan: name of the plan.
        queries_limit: queries a month; None: without limit.
        current_month_usage: queries of this month.
        resets_at_s: seconds since 1970 when the next month begins (UTC).
    """

    plan: str
    queries_limit: int | None
    current_month_usage: int
    resets_at_s: int

    @property
    def remaining(self) -> int | None:
        """Queries left; None without limit."""
        if self.queries_limit is None:
            return None
        return max(0, self.queries_limit - self.current_month_usage)


class PlanSpent(RateLimited):
    """The queries of a plan are used up; `standing` has the user's plan and usage."""

    def __init__(self, standing: Standing, retry_after_s: float) -> None:
        super().__init__(
            f"the plan {standing.plan!r} includes {standing.queries_limit} queries a month and "
            "they are used up",
            retry_after_s=retry_after_s,
        )
        self.standing = standing


@dataclass(slots=True)
class _StoredUsage:
    """A user's stored plan and query count of a month."""

    plan: str
    month: int
    stored: int
    read_at: float


class PlanUsage:
    """The monthly usage of the users of one database.

    Args:
        database: where plans and counts are.
        feed: tells of changed plans.
        plans: queries a month by plan, None for without limit.
        default_plan: for users without a row; its limit also holds for users whose plan is not
            among `plans` any more.
    """

    def __init__(
        self,
        database: Database,
        feed: ChangeFeed,
        *,
        plans: Mapping[str, int | None],
        default_plan: str,
    ) -> None:
        self._database = database
        self._plans = dict(plans)
        self._default_plan = default_plan
        self._known: LRUCache[str, _StoredUsage] = LRUCache(USERS_KEPT)
        self._missed: set[str] = set()
        self._pending: Counter[tuple[str, int]] = Counter()
        self._flying: Counter[tuple[str, int]] = Counter()
        self._flights: Flights[_StoredUsage] = Flights()
        feed.subscribe(USER, self._user_changed)

    async def standing(self, user: str) -> Standing:
        """A user's plan and usage, including what this process has counted.

        Raises:
            BackendError: the database could not be asked and nothing is known of the user.
        """
        user = user[:OWNER_CHARS]  # of a second issuer they may be longer than a column
        month, resets_at_s = month_of(time.time())
        known = self._known.get(user)
        if known is None or known.month != month or time.monotonic() - known.read_at >= TTL_S:
            try:
                known = await self._flights.join(user, lambda: self._load(user, month))
            except BackendError:
                if known is None:
                    raise
        key = (user, month)
        used = self._pending[key] + self._flying[key]
        used += known.stored if known.month == month else 0
        limit = self._limit(known.plan)
        return Standing(known.plan, limit, used, resets_at_s)

    async def spend(self, user: str) -> Standing:
        """Count one query against the user's plan.

        Raises:
            PlanSpent: no query is left this month.
            BackendError: see `standing`.
        """
        standing = await self.standing(user)
        if standing.remaining == 0:
            raise PlanSpent(standing, max(1.0, standing.resets_at_s - time.time()))
        month, _ = month_of(time.time())
        self._pending[user[:OWNER_CHARS], month] += 1
        return replace(standing, current_month_usage=standing.current_month_usage + 1)

    @property
    def waiting(self) -> int:
        """The number of queries that are counted and not stored yet."""
        return self._pending.total()

    async def flush(self) -> None:
        """Add the counts to the database; if that fails, they are added the next time.

        Raises:
            BackendError: the database failed.
        """
        if not self._pending:
            return
        flying, self._pending = self._pending, Counter()
        self._flying = flying
        try:
            async with self._database.write() as connection:
                for (user, month), count in sorted(flying.items()):
                    if (user, month) not in flying:  # deleted meanwhile
                        continue
                    row = self._database.upsert(query_months)
                    row = row.values(user_id=user, month=month, queries=count)
                    await connection.execute(
                        row.on_conflict_do_update(
                            index_elements=["user_id", "month"],
                            set_={"queries": query_months.c.queries + count},
                        )
                    )
        except BaseException:  # also where the end does not wait any more: it tells how many
            self._pending.update(flying)
            raise
        else:
            for (user, month), count in flying.items():
                known = self._known.get(user)
                if known is not None and known.month == month:
                    known.stored += count
        finally:
            self._flying = Counter()

    async def prune(self) -> None:
        """Delete the counts of the months before the last one, which nobody reads any more.

        Raises:
            BackendError: the database failed.
        """
        month, _ = month_of(time.time() - _MONTH_S)
        async with self._database.write() as connection:
            await connection.execute(delete(query_months).where(query_months.c.month < month))

    def forget(self, user: str) -> None:
        """Forget a deleted user's count: a later user of that name is somebody else."""
        for counts in (self._pending, self._flying):
            for key in [key for key in counts if key[0] == user]:
                del counts[key]

    def _limit(self, plan: str) -> int | None:
        if plan in self._plans:
            return self._plans[plan]
        if plan not in self._missed:
            self._missed.add(plan)
            _log.warning("plan_is_gone", plan=plan, limit_of=self._default_plan)
        return self._plans.get(self._default_plan)

    async def _load(self, user: str, month: int) -> _StoredUsage:
        key = (user, month)
        before = self._flying[key]
        async with self._database.read() as connection:
            found = select(users.c.plan).where(users.c.id == user)
            plan = (await connection.execute(found)).scalar() or self._default_plan
            chosen = (query_months.c.user_id == user) & (query_months.c.month == month)
            stored = (
                await connection.execute(select(query_months.c.queries).where(chosen))
            ).scalar() or 0
        if before != self._flying[key]:  # a flush ended meanwhile; counted either here or there
            stored = max(stored, self._known[user].stored if user in self._known else stored)
        known = _StoredUsage(plan, month, stored, time.monotonic())
        self._known[user] = known
        return known

    async def _user_changed(self, user: str) -> None:
        self._flights.forget(user)
        self._known.pop(user, None)


def month_of(now_s: float) -> tuple[int, int]:
    """(month as a number like 202607, seconds since 1970 when the next month begins), UTC."""
    today = datetime.fromtimestamp(now_s, UTC)
    year, month = (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
    return today.year * 100 + today.month, calendar.timegm((year, month, 1, 0, 0, 0))
