"""The statements of usage statistics, each built once: they run every few seconds.

Owns: `UsageStatements`. A statement that is built anew costs the event loop a tenth of a
millisecond, and leaves cycles of objects for the garbage collector.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    Executable,
    ScalarSelect,
    Select,
    bindparam,
    case,
    collate,
    func,
    select,
    tuple_,
    update,
)

from armory.storage.database import Database
from armory.storage.tables import server_days, tool_days, user_tools

LATE_MS = 15_000
"""How late what was stored may become visible: a transaction took its time before it committed."""
_Rows = Select[*tuple[Any, ...]]


class UsageStatements:
    """The SQL statements for one database. Parameters are named like the columns, unless stated."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @cached_property
    def have_tool_day(self) -> Executable:
        """Insert a row for `tool` and `day` if missing: sketches cannot be added in SQL."""
        row = self._database.upsert(tool_days).values(
            uses=0, successes=0, latency=b"", last_used_at_ms=0, updated_at_ms=0,
            tool=bindparam("tool"), day=bindparam("day"),
        )  # fmt: skip
        return row.on_conflict_do_nothing(index_elements=["tool", "day"])

    @cached_property
    def lock_tool_days(self) -> _Rows:
        """Rows by `keys`, a list of (tool, day), locked until the transaction ends.

        They are locked in the order in which all flushes take their keys, whatever the language of
        the database: two of them could wait for each other.
        """
        columns = tool_days.c
        tool = columns.tool if self._database.dialect == "sqlite" else collate(columns.tool, "C")
        keys = bindparam("keys", expanding=True)
        return (
            select(columns.tool, columns.day, columns.latency, columns.last_used_at_ms)
            .where(tuple_(columns.tool, columns.day).in_(keys))
            .order_by(tool, columns.day)
            .with_for_update()
        )

    @cached_property
    def add_to_tool_day(self) -> Executable:
        """Add to a row; parameters are called `b_tool`, `b_day`, `b_uses`, `b_successes`,
        `b_latency`, `b_last`.
        """
        columns = tool_days.c
        return (
            update(tool_days)
            .where(columns.tool == bindparam("b_tool"), columns.day == bindparam("b_day"))
            .values(
                uses=columns.uses + bindparam("b_uses"),
                successes=columns.successes + bindparam("b_successes"),
                latency=bindparam("b_latency"),
                last_used_at_ms=bindparam("b_last"),
                updated_at_ms=self._database.now_ms,
            )
        )

    @cached_property
    def add_to_user_tool(self) -> Executable:
        """Add a user's calls of a tool."""
        columns = user_tools.c
        new = self._database.upsert(user_tools)
        given = ("user_id", "tool", "uses", "successes", "last_used_at_ms")
        row = new.values(
            updated_at_ms=self._database.now_ms, **{name: bindparam(name) for name in given}
        )
        last = columns.last_used_at_ms
        return row.on_conflict_do_update(
            index_elements=["user_id", "tool"],
            set_={
                "uses": columns.uses + row.excluded.uses,
                "successes": columns.successes + row.excluded.successes,
                "last_used_at_ms": case(
                    (last > row.excluded.last_used_at_ms, last),
                    else_=row.excluded.last_used_at_ms,
                ),
                "updated_at_ms": row.excluded.updated_at_ms,
            },
        )

    @cached_property
    def add_to_server_day(self) -> Executable:
        """Add the time that a server was up and the time it was observed."""
        columns = server_days.c
        given = ("server", "day", "up_ms", "observed_ms")
        row = self._database.upsert(server_days).values(
            updated_at_ms=self._database.now_ms, **{name: bindparam(name) for name in given}
        )
        return row.on_conflict_do_update(
            index_elements=["server", "day"],
            set_={
                "up_ms": columns.up_ms + row.excluded.up_ms,
                "observed_ms": columns.observed_ms + row.excluded.observed_ms,
                "updated_at_ms": row.excluded.updated_at_ms,
            },
        )

    @cached_property
    def changed_tools(self) -> _Rows:
        """(tool, when its rows changed last, their uses) of those that did since `since_ms`
        (`_since`), from `since_day` on.
        """
        columns = tool_days.c
        return (
            select(columns.tool, func.max(columns.updated_at_ms), func.sum(columns.uses))
            .where(
                columns.updated_at_ms >= self._since,
                columns.day >= bindparam("since_day"),
            )
            .group_by(columns.tool)
        )

    @cached_property
    def days_of_tools(self) -> _Rows:
        """The rows of `tools`, a list of names, from `since_day` on, tool by tool."""
        columns = tool_days.c
        names = bindparam("tools", expanding=True)
        return (
            select(tool_days)
            .where(columns.tool.in_(names), columns.day >= bindparam("since_day"))
            .order_by(columns.tool)
        )

    @cached_property
    def changed_users(self) -> _Rows:
        """The rows of users that changed since `since_ms` (`_since`)."""
        return select(user_tools).where(user_tools.c.updated_at_ms >= self._since)

    @property
    def _since(self) -> ScalarSelect[int]:
        return self._database.not_after_now(bindparam("since_ms", type_=BigInteger), LATE_MS)

    @cached_property
    def newest_of_users(self) -> _Rows:
        """The latest change of a user's row; None: there is none."""
        return select(func.max(user_tools.c.updated_at_ms))

    @cached_property
    def of_user(self) -> _Rows:
        """The rows of the user `user`, what was used last at the end."""
        rows = select(user_tools).where(user_tools.c.user_id == bindparam("user"))
        return rows.order_by(user_tools.c.last_used_at_ms)

    @cached_property
    def uptimes(self) -> _Rows:
        """(server, milliseconds up, milliseconds observed) from `since_day` on."""
        columns = server_days.c
        return (
            select(columns.server, func.sum(columns.up_ms), func.sum(columns.observed_ms))
            .where(columns.day >= bindparam("since_day"))
            .group_by(columns.server)
        )
