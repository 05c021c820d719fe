"""Async use of SQLAlchemy's connections, without its ORM.

Owns: `AsyncConnection` and its transactions. `sqlalchemy.ext.asyncio` does the same and loads the
ORM for its sessions, which nobody here has: 8 MB of each process, and 0.1 s of each command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, overload

from sqlalchemy import Executable
from sqlalchemy.engine import Connection, CursorResult, Engine, Transaction
from sqlalchemy.util import greenlet_spawn

from armory.tasks import retrieve_failure, start

if TYPE_CHECKING:
    from sqlalchemy.sql.selectable import TypedReturnsRows

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Columns = TypeVarTuple("_Columns")


class AsyncConnection:
    """A connection with an async driver; see `connected`.

    SQLite's driver finishes each statement in a thread in any case. So a caller that is cancelled
    waits for it: a connection that is abandoned in the middle would keep its lock until the garbage
    collector finds the unread rows.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._whole = connection.dialect.name == "sqlite"

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
        return await self.run_sync(Connection.execute, statement, parameters)

    async def run_sync(
        self, work: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run `work` with the synchronous connection; it may wait for the database."""
        working = greenlet_spawn(work, self._connection, *args, **kwargs)
        return await (_to_its_end(working) if self._whole else working)

    async def end(self, begun: Transaction, error: BaseException | None) -> None:
        """Commit a transaction; roll it back where there was an error."""

        def work(_connection: Connection) -> None:
            begun.__exit__(type(error) if error else None, error, None)

        await self.run_sync(work)


@asynccontextmanager
async def connected(engine: Engine, **options: Any) -> AsyncGenerator[AsyncConnection]:
    """A connection of an engine with an async driver, returned to the pool at the end.

    Args:
        engine: SQLAlchemy's.
        options: execution options.
    """
    connection = await greenlet_spawn(engine.connect)
    try:
        connection.execution_options(**options)
        yield AsyncConnection(connection)
    finally:
        await _to_its_end(greenlet_spawn(connection.close))


@asynccontextmanager
async def transaction(engine: Engine, **options: Any) -> AsyncGenerator[AsyncConnection]:
    """As `connected`, in a transaction: committed at the end, rolled back on any exception."""
    async with connected(engine, **options) as connection:
        begun = await connection.run_sync(Connection.begin)
        try:
            yield connection
        except BaseException as error:
            await connection.end(begun, error)
            raise
        await connection.end(begun, None)


async def dispose(engine: Engine) -> None:
    """Close the connections of an engine's pool."""
    await greenlet_spawn(engine.dispose)


async def _to_its_end(work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`, also waited for when the caller is cancelled, so that nothing is left
    half done.
    """
    task = start(work, "work of a database")
    cancelled: asyncio.CancelledError | None = None
    try:
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            retrieve_failure(task)
            raise cancelled
        return task.result()
    finally:
        del task, cancelled  # whose errors hold this frame by their traces
