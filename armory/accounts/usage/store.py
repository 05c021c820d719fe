"""Usage statistics in the database: counts are added, never overwritten, so that replicas add up.

Owns: which rows are written and read, in which order; `statements` has the SQL. Keeps nothing in
memory between calls except how far it has read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, func, select, tuple_
from sqlalchemy.engine import Row

from armory.accounts.usage.sketch import LatencySketch
from armory.accounts.usage.statements import LATE_MS, UsageStatements
from armory.storage.connection import AsyncConnection
from armory.storage.database import Database
from armory.storage.tables import server_days, tool_days, user_tools

ROWS_KEPT, DAYS_KEPT = 1_000_000, 250_000
"""Rows of users and tools that stay, and of tools and days, which a start sums up: those that were
used last."""
TOOLS_OF_USER = 10_000
"""Tools that stay in one user's history, those that were used last: an upstream may invent new
names without end."""
_CHUNK = 200
DELETED_AT_ONCE = 10_000
"""Rows that one transaction deletes: others cannot write to SQLite meanwhile."""
_SUMMED_AT_ONCE = 20
"""Tools whose days are read at once: each has up to a window of them."""


@dataclass(slots=True)
class Counted:
    """Calls counted in this process and not stored yet."""

    uses: int = 0
    successes: int = 0
    last_used_at_ms: int = 0
    latency: LatencySketch = field(default_factory=LatencySketch)

    def count(self, uses: int, successes: int, last_used_at_ms: int) -> None:
        """Count answered calls, the last of them at the given time."""
        self.uses += uses
        self.successes += successes
        self.last_used_at_ms = last_used_at_ms

    def add(self, other: Counted) -> None:
        """Add the counts of `other`."""
        self.uses += other.uses
        self.successes += other.successes
        self.last_used_at_ms = max(self.last_used_at_ms, other.last_used_at_ms)
        self.latency.merge(other.latency)


@dataclass(frozen=True, slots=True)
class ToolStatistics:
    """The statistics of one tool within the window.

    Attributes:
        uses, successes: calls, and those that did not fail.
        p50_ms, p99_ms: latencies in milliseconds, within one percent.
        last_used_at_ms: milliseconds since 1970.
    """

    uses: int
    successes: int
    p50_ms: float
    p99_ms: float
    last_used_at_ms: int

    @property
    def success_rate(self) -> float:
        """Share of calls that succeeded, in [0, 1]."""
        return self.successes / self.uses if self.uses else 0.0

    @property
    def error_rate(self) -> float:
        """Share of calls that failed, in [0, 1]."""
        return 1.0 - self.success_rate if self.uses else 0.0


@dataclass(frozen=True, slots=True)
class UserTool:
    """One user's usage of one tool, over all time."""

    uses: int
    successes: int
    last_used_at_ms: int


def day_of(at_ms: int) -> int:
    """The day (UTC) as a number like 20260719."""
    day = datetime.fromtimestamp(at_ms / 1000, UTC)
    return day.year * 10_000 + day.month * 100 + day.day


def first_day(now_ms: int, window_days: int) -> int:
    """The first day of a window that ends today."""
    start = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=window_days - 1)
    return day_of(int(start.timestamp() * 1000))


class UsageStore:
    """The statements over `tool_days`, `user_tools` and `server_days`.

    Args:
        database: where they are.
        rows_kept, days_kept: see `ROWS_KEPT`.
        tools_of_user: see `TOOLS_OF_USER`.
    """

    def __init__(
        self,
        database: Database,
        *,
        rows_kept: int = ROWS_KEPT,
        days_kept: int = DAYS_KEPT,
        tools_of_user: int = TOOLS_OF_USER,
    ) -> None:
        self._database = database
        self._kept = ((user_tools, rows_kept), (tool_days, days_kept))
        self._tools_of_user = tools_of_user
        self._statements = UsageStatements(database)
        self._tools_seen_ms = 0
        self._tools_taken: dict[str, tuple[int, int]] = {}  # of those that are looked at again
        self._users_seen_ms: int | None = None

    async def add(
        self,
        tools: Mapping[tuple[str, int], Counted],
        users: Mapping[tuple[str, str], Counted],
        servers: Mapping[tuple[str, int], tuple[int, int]],
    ) -> None:
        """Add counts, in one transaction.

        Args:
            tools: by (tool, day).
            users: by (user, tool); latencies are not kept here.
            servers: (milliseconds up, milliseconds observed) by (server, day).
        """
        statements = self._statements
        async with self._database.write() as connection:
            for chunk in _chunks(sorted(tools)):
                await self._add_tools(connection, [(key, tools[key]) for key in chunk])
            if users:
                await connection.execute(
                    statements.add_to_user_tool,
                    [
                        {"user_id": user, "tool": tool, "uses": counted.uses}
                        | {"successes": counted.successes}
                        | {"last_used_at_ms": counted.last_used_at_ms}
                        for (user, tool), counted in sorted(users.items(), key=_by_key)
                    ],
                )
            if servers:
                await connection.execute(
                    statements.add_to_server_day,
                    [
                        {"server": server, "day": day, "up_ms": up_ms, "observed_ms": observed_ms}
                        for (server, day), (up_ms, observed_ms) in sorted(servers.items())
                    ],
                )

    async def _add_tools(
        self, connection: AsyncConnection, items: Sequence[tuple[tuple[str, int], Counted]]
    ) -> None:
        # Sketches cannot be added up in SQL: make sure of the rows, lock them, merge, write.
        statements, keys = self._statements, [key for key, _ in items]
        await connection.execute(
            statements.have_tool_day, [{"tool": tool, "day": day} for tool, day in keys]
        )
        locked = await connection.execute(statements.lock_tool_days, {"keys": keys})
        held = {(row.tool, row.day): row for row in locked}
        values: list[dict[str, Any]] = []
        for key, counted in items:
            await asyncio.sleep(0)  # each takes half a millisecond
            sketch = LatencySketch.from_bytes(held[key].latency)
            sketch.merge(counted.latency)
            last = max(held[key].last_used_at_ms, counted.last_used_at_ms)
            values.append(
                {"b_tool": key[0], "b_day": key[1], "b_uses": counted.uses}
                | {"b_successes": counted.successes, "b_latency": sketch.to_bytes()}
                | {"b_last": last}
            )
        await connection.execute(statements.add_to_tool_day, values)

    async def changed_tools(
        self, since_day: int, *, anew: bool = False
    ) -> dict[str, ToolStatistics]:
        """Statistics since `since_day` of every tool whose rows changed since the last call.

        Args:
            since_day: the first day that counts.
            anew: of every tool that has rows since then.
        """
        statements, found = self._statements, dict[str, ToolStatistics]()
        since = {"since_ms": 0 if anew else self._tools_seen_ms, "since_day": since_day}
        async with self._database.read() as connection:
            rows = await connection.execute(statements.changed_tools, since)
            changed = {tool: (int(at_ms), int(uses)) for tool, at_ms, uses in rows}
            taken = {} if anew else self._tools_taken
            new = sorted(tool for tool, state in changed.items() if taken.get(tool) != state)
            for chunk in _chunks(new, _SUMMED_AT_ONCE):
                wanted = {"tools": chunk, "since_day": since_day}
                rows = (await connection.execute(statements.days_of_tools, wanted)).all()
                for tool, days in groupby(rows, key=lambda row: row.tool):
                    found[tool] = await _summed(list(days))
        self._tools_taken = changed
        if changed:
            self._tools_seen_ms = max(at_ms for at_ms, _ in changed.values()) - LATE_MS
        return found

    async def changed_users(self) -> dict[tuple[str, str], UserTool]:
        """Every (user, tool) whose row changed since the last call; the first time none."""
        statements = self._statements
        async with self._database.read() as connection:
            if self._users_seen_ms is None:
                newest = (await connection.execute(statements.newest_of_users)).scalar_one()
                self._users_seen_ms = (newest or 0) - LATE_MS
                return {}
            since = {"since_ms": self._users_seen_ms}
            rows = (await connection.execute(statements.changed_users, since)).all()
        if rows:
            self._users_seen_ms = max(row.updated_at_ms for row in rows) - LATE_MS
        return {(row.user_id, row.tool): _of_row(row) for row in rows}

    async def of_user(self, user: str) -> dict[str, UserTool]:
        """One user's usage by tool."""
        async with self._database.read() as connection:
            rows = (await connection.execute(self._statements.of_user, {"user": user})).all()
        return {row.tool: _of_row(row) for row in rows}

    async def uptimes(self, since_day: int) -> dict[str, float]:
        """Share of observed time since `since_day` that each server was up, in [0, 1]."""
        since = {"since_day": since_day}
        async with self._database.read() as connection:
            rows = (await connection.execute(self._statements.uptimes, since)).all()
        return {server: float(up) / float(seen) for server, up, seen in rows if seen}

    async def prune(self, before_day: int) -> None:
        """Delete days before `before_day`, and what was not used for longest beyond the limits."""
        for table in (tool_days, server_days):
            await self._delete(table, table.c.day < before_day)
        of_user = user_tools.c.user_id
        most = select(of_user).group_by(of_user).having(func.count() > self._tools_of_user)
        async with self._database.read() as connection:
            users = (await connection.execute(most)).scalars().all()
        for user in users:
            await self._keep_latest(user_tools, self._tools_of_user, of_user == user)
        for table, kept in self._kept:
            await self._keep_latest(table, kept)

    async def _keep_latest(self, table: Table, kept: int, *among: ColumnElement[bool]) -> None:
        """Delete the rows of a table that were used before the `kept` latest; those that were used
        in the same moment stay.
        """
        used = table.c.last_used_at_ms
        oldest = select(used).where(*among).order_by(used.desc()).offset(kept - 1).limit(1)
        async with self._database.read() as connection:
            counting = select(func.count()).select_from(table).where(*among)
            if (await connection.execute(counting)).scalar_one() <= kept:
                return
            since_ms = (await connection.execute(oldest)).scalar_one()
        await self._delete(table, *among, used < since_ms)

    async def _delete(self, table: Table, *which: ColumnElement[bool]) -> None:
        """Delete rows, some at a time. Those that a flush has locked are in use and stay: it takes
        its rows in another order, and each could wait for the other.
        """
        keys = tuple(table.primary_key)
        some = select(*keys).where(*which).limit(DELETED_AT_ONCE).with_for_update(skip_locked=True)
        statement = delete(table).where(tuple_(*keys).in_(some))
        deleted = DELETED_AT_ONCE
        while deleted >= DELETED_AT_ONCE:
            async with self._database.write() as connection:
                deleted = (await connection.execute(statement)).rowcount


def _of_row(row: Row[Any]) -> UserTool:
    return UserTool(row.uses, row.successes, row.last_used_at_ms)


async def _summed(days: Sequence[Row[Any]]) -> ToolStatistics:
    sketch = LatencySketch()
    for day in days:
        await asyncio.sleep(0)  # each takes half a millisecond
        sketch.merge(LatencySketch.from_bytes(day.latency))
    return ToolStatistics(
        uses=sum(day.uses for day in days),
        successes=sum(day.successes for day in days),
        p50_ms=sketch.quantile(0.5) or 0.0,
        p99_ms=sketch.quantile(0.99) or 0.0,
        last_used_at_ms=max(day.last_used_at_ms for day in days),
    )


def _by_key(item: tuple[tuple[str, str], Counted]) -> tuple[str, str]:
    return item[0]


def _chunks(keys: Iterable[Any], size: int = _CHUNK) -> Iterator[list[Any]]:
    items = list(keys)
    for start in range(0, len(items), size):
        yield items[start : start + size]
