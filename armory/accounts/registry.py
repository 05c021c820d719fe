"""Tools that an administrator registered for search, and that no upstream offers.

Owns: their rows and the records made of them. They can be found over REST and never called; a tool
that an upstream offers under the same exposed name replaces them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, select, update

from armory.accounts.names import check_name
from armory.domain.naming import expose_names, is_server_key
from armory.domain.tool import ToolRecord, fingerprint
from armory.errors import InvalidRequest
from armory.storage.changes import ChangeFeed
from armory.storage.connection import AsyncConnection
from armory.storage.database import Database, now_ms
from armory.storage.tables import indexed_tools

TOOLS = "tools"
MAX_TOOLS = 20_000
_AT_ONCE = 100
"""Tools that are read or written in one turn of the event loop."""
_VALUES = ("server", "original_name", "definition", "category", "tags", "updated_at_ms")


class ToolRegistry:
    """The registered tools of one database, held in memory.

    Args:
        database: where they are.
        feed: tells every process of changes; whoever subscribes to `TOOLS` later than this is told
            when the records are new.
    """

    def __init__(self, database: Database, feed: ChangeFeed) -> None:
        self._database = database
        self._feed = feed
        self._records: Mapping[str, ToolRecord] = {}
        feed.subscribe(TOOLS, self._changed)

    @property
    def records(self) -> Mapping[str, ToolRecord]:
        """The records by exposed name; a new object after every change."""
        return self._records

    async def load(self) -> None:
        """Read the registered tools from the database."""
        records: dict[str, ToolRecord] = {}
        column, last = indexed_tools.c.name, ""
        async with self._database.read() as connection:
            while len(records) < MAX_TOOLS:
                more = select(indexed_tools).where(column > last).order_by(column).limit(_AT_ONCE)
                rows = (await connection.execute(more)).all()
                records.update((row.name, _record(row)) for row in rows)
                if len(rows) < _AT_ONCE:
                    break
                last = rows[-1].name
                await asyncio.sleep(0)
        self._records = records

    async def add(
        self,
        tools: Sequence[Mapping[str, Any]],
        *,
        server: str,
        category: str | None = None,
        tags: Iterable[str] = (),
        skip_existing: bool = False,
    ) -> tuple[list[str], list[str]]:
        """Add or replace tools of one server; returns (exposed names written, names skipped).

        Args:
            tools: MCP tool objects; `name` is needed, everything else is kept as it is.
            server: the server key that they are named under.
            category: of all of them.
            tags: of all of them.
            skip_existing: leave those alone that are there already.

        Raises:
            InvalidRequest: a server key or a name that cannot be used.
        """
        more: dict[str, Any] = {"category": category, "tags": tags}
        return await self.add_all({server: tools}, skip_existing=skip_existing, **more)

    async def add_all(
        self,
        by_server: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        category: str | None = None,
        tags: Iterable[str] = (),
        skip_existing: bool = False,
    ) -> tuple[list[str], list[str]]:
        """Like `add`, for several servers, in one transaction.

        Raises:
            InvalidRequest: as `add`.
        """
        given = {server: _by_original(server, tools) for server, tools in by_server.items()}
        all_tags = list(dict.fromkeys(tags))
        rows: list[dict[str, Any]] = []
        skipped: list[str] = []
        insert = self._database.upsert(indexed_tools)
        write = insert.on_conflict_do_update(
            index_elements=["name"], set_={column: insert.excluded[column] for column in _VALUES}
        )
        async with self._feed.transaction() as change:
            there = await _names_by_server(change.connection)
            servers = {*there, *given}
            every = {key: {*there[key].values(), *given.get(key, ())} for key in servers}
            if sum(map(len, every.values())) > MAX_TOOLS:
                raise InvalidRequest(f"more than {MAX_TOOLS} tools", parameter="tools")
            renamed = False
            for server, tools in given.items():
                known = frozenset(there[server].values())
                names = expose_names(server, every[server])
                renamed |= await _rename(change.connection, there[server], names)
                for original, tool in tools.items():
                    name = names[original]
                    if skip_existing and original in known:
                        skipped.append(name)
                        continue
                    values = (server, original, dict(tool), category, all_tags, now_ms())
                    rows.append({"name": name, **dict(zip(_VALUES, values, strict=True))})
            for start in range(0, len(rows), _AT_ONCE):
                await change.connection.execute(write, rows[start : start + _AT_ONCE])
            if rows or renamed:
                change.changed(TOOLS, "all")
        return [row["name"] for row in rows], skipped

    async def remove(self, names: Iterable[str]) -> list[str]:
        """Remove tools by exposed name; returns the names that existed."""
        wanted = list(dict.fromkeys(names))
        async with self._feed.transaction() as change:
            column = indexed_tools.c.name
            found = await change.connection.execute(select(column).where(column.in_(wanted)))
            gone = set(found.scalars())
            if gone:
                await change.connection.execute(delete(indexed_tools).where(column.in_(gone)))
                change.changed(TOOLS, "all")
        return [name for name in wanted if name in gone]

    async def of_server(self, server: str) -> list[str]:
        """The exposed names of all tools of one server."""
        async with self._database.read() as connection:
            columns = indexed_tools.c
            statement = select(columns.name).where(columns.server == server).order_by(columns.name)
            return list((await connection.execute(statement)).scalars())

    async def _changed(self, _value: str) -> None:
        await self.load()


def _by_original(server: str, tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The tools of one server by original name.

    Raises:
        InvalidRequest: a server key or a name that cannot be used.
    """
    if not is_server_key(server):
        raise InvalidRequest(
            f"server is {server[:40]!r}; expected lower-case words joined by hyphens",
            parameter="server",
        )
    return {check_name(str(tool.get("name", "")), "name"): tool for tool in tools}


async def _names_by_server(connection: AsyncConnection) -> defaultdict[str, dict[str, str]]:
    """Original names by exposed ones, by server."""
    columns = indexed_tools.c
    statement = select(columns.server, columns.name, columns.original_name)
    found = defaultdict[str, dict[str, str]](dict)
    for server, name, original in await connection.execute(statement):
        found[server][name] = original
    return found


async def _rename(
    connection: AsyncConnection, there: Mapping[str, str], names: Mapping[str, str]
) -> bool:
    """Update the exposed names of a server's tools: a new tool can collide with an existing one.
    Returns whether any exposed name changed.

    Args:
        connection: of the change.
        there: original names by exposed ones, as they are.
        names: exposed names by original ones, as they are to be.
    """
    changed = {name: names[own] for name, own in there.items() if names[own] != name}
    for name, wanted in changed.items():
        row = indexed_tools.c.name == name
        if wanted in there:
            await connection.execute(delete(indexed_tools).where(row))
        else:
            await connection.execute(update(indexed_tools).where(row).values(name=wanted))
    return bool(changed)


def _record(row: Any) -> ToolRecord:
    definition: dict[str, Any] = row.definition
    description = definition.get("description")
    return ToolRecord(
        name=row.name,
        server=row.server,
        original_name=row.original_name,
        definition=definition,
        fingerprint=fingerprint(definition),
        description=description if isinstance(description, str) else "",
        tags=tuple(row.tags),
        category=row.category,
    )
