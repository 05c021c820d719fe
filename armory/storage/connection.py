"""SQLAlchemy's connections used from an event loop, without its ORM.

Owns: `AsyncConnection` and its transactions. `sqlalchemy.ext.asyncio` does the same and loads the
ORM for its sessions, which nobody here has: 8 MB of each process, and 0.1 s of each command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, overload

from sqlalchemy import Executable
from sqlalchemy.engine import Connection, CursorResult, Engine
from sqlalchemy.util import greenlet_spawn

from armory.tasks import start

if TYPE_CHECKING:
    from sqlalchemy.sql.selectable import TypedReturnsRows

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Columns = TypeVarTuple("_Columns")


class AsyncConnection:
    """A connection whose driver awaits; see `connected`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @overload
    async def execute(
        self, statement: TypedReturnsRows[*_Columns], parameters: Any | None = None
    ) -> CursorResult[*_Columns]: ...

    @overload
    async def execute(
        self, statement: Executable, parameters: Any | None = None
    ) -> CursorResult[*tuple[Any, ...]]: ...

    async def execute(
        self, statement: Executable, parameters: Any | None = None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Execute one statement; its rows are there, the driver fetches them all.

        Args:
            statement: what to execute.
            parameters: of the statement, or a list of them.
        """
        return await greenlet_spawn(self._connection.execute, statement, parameters)

    async def run_sync(
        self, work: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """What `work` returns, which is given the connection and may wait for the database."""
        return await greenlet_spawn(work, self._connection, *args, **kwargs)


@asynccontextmanager
async def connected(engine: Engine, **options: Any) -> AsyncGenerator[AsyncConnection]:
    """A connection of an engine with an asynchronous driver, given back at the end.

    Args:
        engine: SQLAlchemy's.
        options: execution options.
    """
    connection = await greenlet_spawn(engine.connect)
    try:
        connection.execution_options(**options)
        yield AsyncConnection(connection)
    finally:
        await _to_its_end(connection.close)


@asynccontextmanager
async def transaction(engine: Engine, **options: Any) -> AsyncGenerator[AsyncConnection]:
    """As `connected`, in a transaction: committed at the end, rolled back on any exception."""
    async with connected(engine, **options) as connection:
        begun = await connection.run_sync(Connection.begin)
        try:
            yield connection
        except BaseException as error:
            await greenlet_spawn(begun.__exit__, type(error), error, error.__traceback__)
            raise
        await greenlet_spawn(begun.__exit__, None, None, None)


async def dispose(engine: Engine) -> None:
    """Close the connections that an engine keeps."""
    await greenlet_spawn(engine.dispose)


async def _to_its_end(work: Callable[[], None]) -> None:
    """Wait for `work` also where the caller is cancelled meanwhile: it leaves nothing half done."""
    task = start(greenlet_spawn(work), "give a connection back")
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
