"""The SQL database: SQLite (WAL) in one file by default, Postgres by URL.

Owns: transactions, counting commits, and turning the drivers' failures into `BackendError`. Never
imports accounts.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ScalarSelect,
    case,
    cast,
    extract,
    func,
    select,
    text,
)
from sqlalchemy.engine import Row
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.sql import Insert
from sqlalchemy.sql.schema import Table

from armory.ending import at_most
from armory.errors import BackendError
from armory.files import NO_ROOM, disk_left
from armory.logger import Logger
from armory.storage.connection import AsyncConnection, connected, dispose, transaction
from armory.storage.engine import (
    READ_ONLY,
    driver_url,
    make_engine,
    network_connections,
    prepare_sqlite,
    sqlite_file,
    without_credentials,
)
from armory.storage.private import mend_database, private_file
from armory.storage.schema import bring_up_to_date
from armory.tasks import start

_log = Logger(__name__)
_END_S = 5.0
"""How long `close` waits for connections in use."""
_FAREWELL_S = 2.0
"""How long a server may take to close its connections."""
_UPGRADE_LOCK = 0x41524D52  # any number that no other program is likely to lock
_CONNECTING = frozenset(("08", "28", "3D", "53", "57"))
"""Classes of SQLSTATE about reaching a database at all: their messages hold no data."""
_SHOWN_STATES = (READ_ONLY, "42704", "42501", "3F000")
"""The SQLSTATEs of that, of an unknown setting in `storage.url`, of what its user may not do, and
of having no schema to make tables in, likewise."""
_BAD_PARAMETER = "ClientConfigurationError"
"""The driver's error about a bad value of a known one, likewise."""
_FILES = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOTADB,
    )
)
"""SQLite's errors about its file, likewise."""
_OF_DISKS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_LITTLE = 16 << 20
"""Bytes. With less a disk counts as full: what is written next may be larger. How much is left is
not told, since a message that differs each time is logged each time."""
_OF_FILES = {
    sqlite3.SQLITE_READONLY: "let this user write it and its folder, or mount its disk writable "
    "(`storage.url`)",
    sqlite3.SQLITE_CORRUPT: "put a saved copy in its place",
    sqlite3.SQLITE_NOTADB: "put a saved copy in its place, or see `storage.url`",
}
"""What to do about them, by code."""
_UVLOOP_LOST = "handler is closed"
"""In the message of the RuntimeError that uvloop raises for a write to a connection that was just
lost."""


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class DatabaseFailed(BackendError):
    """A database could not be read or written.

    Attributes:
        what: the failure.
        fix: what to do about it; both are in the message.
    """

    def __init__(self, what: str, fix: str) -> None:
        told = "the database failed; administrators see why in `armory status`"
        super().__init__(f"{what}; {fix}", told=told)
        self.what = what
        self.fix = fix


class Database:
    """One database; `open` it before use, `close` it after.

    Args:
        url: as `storage.url`.
        pool_size: connections kept; at most twice as many are opened under load.

    Attributes:
        dialect: `sqlite` or `postgresql`.
        where: which one it is, without credentials.
        file: where it is; None: in no file.
    """

    def __init__(self, url: str, *, pool_size: int = 5) -> None:
        target = driver_url(url)
        self.dialect = target.get_backend_name()
        self.file = sqlite_file(target)
        self._commits: sqlite3.Connection | None = None
        self.where = without_credentials(target)
        self._engine = make_engine(target, pool_size)
        self._network = network_connections(self._engine)
        self._here: sqlite3.Connection | None = None
        self._users = 0
        self._unused = asyncio.Event()

    async def open(self) -> None:
        """Connect and bring the schema up to date.

        Raises:
            BackendError: it cannot be reached or upgraded.
            ConfigError: it was written by a newer Armory.
        """
        with self._translated():
            if self.file is not None:
                file = self.file
                file.parent.mkdir(parents=True, exist_ok=True)
                private_file(file)
                mend_database(file)
        async with self.write() as connection:
            if self.dialect == "postgresql":  # replicas that start together take turns
                await connection.execute(
                    text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK}
                )
            before, after = await connection.run_sync(bring_up_to_date)
        if before != after:
            _log.info("database_upgraded", before=before, after=after)
        if self.file is not None and self._commits is None:
            self._commits = sqlite3.connect(self.file, timeout=0)

    async def close(self) -> None:
        """Close all connections; those in use once they are returned.

        A connection that is returned to a disposed pool belongs to nobody, and its driver's thread
        would go on. A server that does not answer is disconnected without a farewell.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most(_END_S)):
                await self._all_back()
        if self._commits is not None:
            self._commits.close()
            self._commits = None
        if self._here is not None:
            self._here.close()
            self._here = None
        leaving = start(dispose(self._engine), "close a database")
        await asyncio.wait((leaving,), timeout=at_most(_FAREWELL_S))
        for connection in tuple(self._network):
            connection.terminate()
        try:
            await leaving
        finally:
            del leaving  # whose error holds this frame by its trace

    def commits(self) -> int | None:
        """A number that changes with every commit of any process, read without blocking.

        SQLite keeps it in the shared memory of its log: some microseconds, no thread, no lock.

        Returns:
            None where only a query tells: Postgres, a database in memory, one that is busy.
        """
        if self._commits is None:
            return None
        try:
            return int(self._commits.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return None

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection]:
        """A connection for reading: one consistent snapshot, never waits for writers.

        Raises:
            BackendError: the database failed.
        """
        with self._translated(), self._used():
            async with connected(self._engine) as connection:
                yield connection

    async def rows(self, sql: str, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
        """The rows of one SQL query, columns as the driver returns them.

        Args:
            sql: of both dialects, with parameters such as `:limit`.
            values: of the parameters.

        Raises:
            BackendError: the database failed.
        """
        async with self.read() as connection:
            return (await connection.execute(text(sql), values)).all()

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncConnection]:
        """A transaction: committed at the end, rolled back on any exception.

        Raises:
            BackendError: the database failed. `IntegrityError` passes through: it is about the
                data, and the caller knows what it means.
        """
        with self._translated(), self._used():
            async with transaction(self._engine, armory_write=True) as connection:
                yield connection

    @contextmanager
    def _used(self) -> Generator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    async def _all_back(self) -> None:
        while self._users:
            self._unused.clear()
            await self._unused.wait()

    @property
    def writes_here(self) -> bool:
        """Whether `write_here` can be used: only for a local file."""
        return self.file is not None

    @contextmanager
    def write_here(self) -> Generator[sqlite3.Connection]:
        """As `write`, synchronously: for threads that have nothing else to do.

        The async driver runs each statement in a thread of its own, which costs many times the
        statement itself. Always call it from the same thread.

        Raises:
            BackendError: as `write`, whatever the driver says.
        """
        with self._translated():
            if self._here is None:
                assert self.file is not None
                self._here = sqlite3.connect(self.file)
                prepare_sqlite(self._here)
            self._here.execute("BEGIN IMMEDIATE")
            with self._here:  # commits or rolls back
                yield self._here

    @cached_property
    def now_ms(self) -> ColumnElement[int]:
        """The database's own clock, for what replicas compare with each other. Each expression is a
        cycle of some 24 objects.
        """
        if self.dialect == "postgresql":
            return cast(extract("epoch", func.clock_timestamp()) * 1000, BigInteger)
        return cast((func.julianday("now") - 2440587.5) * 86_400_000, BigInteger)

    def not_after_now(
        self, at_ms: ColumnElement[int], late_ms: int | ColumnElement[int]
    ) -> ScalarSelect[int]:
        """The time from which to look for rows stored since `at_ms`: `late_ms` before now if that
        is earlier, since a clock that was set back gives new rows earlier times.

        Args:
            at_ms: what was seen last, by the database's own clock.
            late_ms: how late a transaction may commit.
        """
        late = self.now_ms - late_ms
        earlier = case((late < at_ms, late), else_=at_ms)
        return select(earlier).scalar_subquery()  # once, not by row

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except (TimeoutError, SQLAlchemyError, sqlite3.Error, OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and _UVLOOP_LOST not in str(error):
                raise
            what = f"the database {self.where} failed ({_reason(error)})"
            raise DatabaseFailed(what, self._fix(error)) from error

    def _fix(self, error: BaseException) -> str:
        """What to do about the error, and where."""
        code = getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", 0) & 0xFF
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            code = sqlite3.SQLITE_FULL
        left = disk_left(self.file.resolve().parent) if code in _OF_DISKS and self.file else None
        if left is not None and left[1] < _LITTLE:
            place = "make room there, or name another file as `storage.url`"
            return f"its disk, mounted at {left[0]}, is full: {place}"
        if left is not None:
            why = "a quota is used up, or the disk or network volume fails (`dmesg`)"
            return f"its disk, mounted at {left[0]}, has room: {why}"
        fix = "see `storage.url`"
        if isinstance(error, OSError) and error.filename is not None:  # of SQLite's folder
            fix += ", or name a folder that this user may write with $ARMORY_HOME"
        return _OF_FILES.get(code, fix)

    def upsert(self, table: Table) -> Any:
        """An INSERT of this dialect that has `on_conflict_do_update` and `..._do_nothing`."""
        if self.dialect == "postgresql":  # each dialect: only where it is spoken
            from sqlalchemy.dialects.postgresql import insert
        else:
            from sqlalchemy.dialects.sqlite import insert
        statement: Insert = insert(table)
        return statement


def _reason(error: BaseException) -> str:
    """The error's message, unless it may contain values of rows."""
    found = getattr(error, "orig", None) or error
    kind = type(found.__cause__ or found).__name__
    if isinstance(found, TimeoutError):
        return "no answer in time"
    if isinstance(found, OSError):
        return f"{kind}: {found.strerror or found}"
    if getattr(found, "sqlite_errorcode", 0) & 0xFF in _FILES:
        return str(found)
    code = str(getattr(found, "sqlstate", None) or "")
    shown = code[:2] in _CONNECTING or code in _SHOWN_STATES or kind == _BAD_PARAMETER
    return f"{kind}: {found}" if shown else kind
