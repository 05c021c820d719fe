"""Where audit records are written: a file, standard output, the database.

Owns: finding the end of a chain, appending to it, retention. Never decides what is recorded.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import func, insert, select, text
from sqlalchemy.engine import Connection, CursorResult

from armory.audit.record import CLOSED, PRUNED, Chain, Entry, column, parsed
from armory.errors import BackendError, ConfigError
from armory.storage.database import Database, now_ms
from armory.storage.tables import audit as table

_DAY_MS = 86_400_000
_TAIL = 1 << 20
PATH = "observability.audit.to"


class Sink(Protocol):
    """Writes records, in order."""

    async def open(self) -> bool:
        """Find the end of the chain; returns whether the last writer closed it.

        Raises:
            ConfigError: it cannot be written.
            BackendError: it cannot be reached now.
        """
        ...

    async def write(self, entries: Sequence[Entry]) -> None:
        """Append these entries; all of them or none.

        Raises:
            BackendError: they could not be written.
        """
        ...

    async def close(self) -> None:
        """Close files and connections."""
        ...


class FileSink:
    """Appends JSON lines to a file of one process. If the file is moved away, a new one continues
    the chain.

    What is written is written in this thread, which waits: see `ThreadedSink`.

    Args:
        path: the file, or None: standard output.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = -1
        self._chain = Chain()

    async def open(self) -> bool:
        """As `Sink.open`."""
        if self._path is None:
            if sys.__stdout__ is None:  # and nobody would ever read the records
                raise ConfigError(
                    "standard output is closed; expected `database` or a file", path=PATH
                )
            self._file = os.dup(sys.stdout.fileno())
            return True
        self._open_file(self._path)
        last, cut = _last_line(self._file)
        if cut is not None:  # a record that a killed process had begun to write
            os.ftruncate(self._file, cut)
        if last is None:
            return cut is None
        record = parsed(last)
        if record is None or not isinstance(record.get("seq"), int):
            raise ConfigError(
                f"{self._path} is no audit: its last line is no record; name another file",
                path=PATH,
            )
        self._chain = Chain(int(str(record["seq"])), str(record["hash"]))
        return cut is None and record.get("method") == CLOSED

    def _open_file(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise ConfigError(
                f"the audit cannot be written to {path}: {error.strerror}; name a file in a folder "
                "that this user may write",
                path=PATH,
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._let_go()
            raise ConfigError(
                f"another process writes its audit to {path}; give each a file of its own, or use "
                "`to: database`, which many may share",
                path=PATH,
            ) from None

    async def write(self, entries: Sequence[Entry]) -> None:
        """As `Sink.write`."""
        chain = Chain(self._chain.seq, self._chain.hash)
        lines = [chain.add(entry) for entry in entries]
        try:
            self._append(b"\n".join(lines) + b"\n")
        except (OSError, ConfigError) as error:
            raise BackendError(
                f"the audit cannot be written: {error}", told="the audit cannot be written"
            ) from None
        self._chain = chain

    def _append(self, data: bytes) -> None:
        if self._path is not None:
            if self._moved(self._path):
                self._let_go()
            if self._file < 0:
                self._open_file(self._path)
        end = os.fstat(self._file).st_size if self._path is not None else 0
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            if self._path is not None and len(left) < len(data):
                os.ftruncate(self._file, end)  # all or nothing
            raise

    def _moved(self, path: Path) -> bool:
        if self._file < 0:
            return False
        try:
            now, own = path.stat(), os.fstat(self._file)
        except FileNotFoundError:
            return True
        return (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino)

    def _let_go(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    async def close(self) -> None:
        """As `Sink.close`."""
        self._let_go()


def _last_line(file: int) -> tuple[bytes | None, int | None]:
    """(last complete line, offset of what follows it); None: there is no complete line."""
    size = os.fstat(file).st_size
    start, data = size, b""
    while start > 0:
        step = min(_TAIL, start)
        start -= step
        data = os.pread(file, step, start) + data
        if data.rstrip(b"\n").count(b"\n") >= 1 and b"\n" in data[:-1]:
            break
    if not data:
        return None, None
    whole, newline, rest = data.rpartition(b"\n")
    cut = size - len(rest) if rest else None
    if not newline:
        return None, cut
    return whole.rpartition(b"\n")[2], cut


class DatabaseSink:
    """Rows of a database that several replicas may share: one chain for all of them.

    Args:
        database: opened by `open`, closed by `close`.
        retention_days: older rows are deleted, and the chain says so.
    """

    def __init__(self, database: Database, retention_days: int) -> None:
        self._database = database
        self._retention_ms = retention_days * _DAY_MS
        self._pruned_ms = 0

    async def open(self) -> bool:
        """As `Sink.open`."""
        await self._database.open()
        return True  # others may write just now: who ended without closing shows in `verify`

    async def write(self, entries: Sequence[Entry]) -> None:
        """As `Sink.write`."""
        now = now_ms()
        if self._database.writes_here:
            with self._database.write_here() as here:
                here.executemany(_INSERT, self._rows(here.execute, entries, now))
        else:
            async with self._database.write() as connection:
                await connection.run_sync(self._append, entries, now)
        if self._due(now):
            self._pruned_ms = now

    def _due(self, now: int) -> bool:
        """Whether the last pruning was a day ago, or has a time in the future."""
        return abs(now - self._pruned_ms) >= _DAY_MS

    def _append(self, connection: Connection, entries: Sequence[Entry], now: int) -> None:
        if self._database.dialect == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))

        def run(statement: str, values: dict[str, int]) -> CursorResult[Any]:
            return connection.execute(text(statement), values)

        rows = self._rows(run, entries, now)
        connection.execute(insert(table), [dict(zip(_COLUMNS, row, strict=True)) for row in rows])

    def _rows(self, run: Run, entries: Sequence[Entry], now: int) -> list[tuple[object, ...]]:
        """The next rows, in a transaction that holds the write lock; prunes once a day."""
        last: Any = run(_LAST, {}).fetchone()
        chain = Chain()
        if last is not None and (record := parsed(last[1])) is not None:
            chain = Chain(last[0], str(record["hash"]))
        added = list(entries)
        if self._due(now):
            kept = _pruned(run, now - self._retention_ms, chain.seq + 1)
            if kept is not None:
                added.append(own_entry(PRUNED, "retention", code=str(kept)))
        return [_row(chain, entry) for entry in added]

    async def close(self) -> None:
        """As `Sink.close`."""
        await self._database.close()


def _pruned(run: Run, before_ms: int, end: int) -> int | None:
    """Delete old records, up to the first that is not old: a record written while the clock was
    wrong says nothing about those before it.

    Returns:
        `seq` of the oldest that stays, or `end`, the next one; None: nothing was deleted.
    """
    # in the order of `seq`, without the index of times, which has all that stay
    kept = "SELECT seq FROM audit WHERE +at_ms >= :before ORDER BY seq LIMIT 1"
    found = run(kept, {"before": before_ms}).fetchone()
    first = end if found is None else int(found[0])
    gone = run("DELETE FROM audit WHERE seq < :first", {"first": first})
    return first if gone.rowcount else None


Run = Callable[[str, dict[str, int]], Any]
"""Runs a statement with named values, and answers its cursor."""
_COLUMNS = ("seq", "at_ms", "who", "tool", "record")
_INSERT = "INSERT INTO audit (seq, at_ms, who, tool, record) VALUES (?, ?, ?, ?, ?)"
_LAST = "SELECT seq, record FROM audit ORDER BY seq DESC LIMIT 1"
_LOCK = 0x41554449


def _row(chain: Chain, entry: Entry) -> tuple[object, ...]:
    """The next record's `_COLUMNS`."""
    line = chain.add(entry).decode()
    tool = None if entry.tool is None else column(entry.tool)
    return chain.seq, int(entry.at * 1_000), column(entry.who), tool, line


def own_entry(method: str, instance: str, *, outcome: str = "ok", code: str | None = None) -> Entry:
    """A record that the audit writes about itself; `instance` identifies the process."""
    at = now_ms() / 1_000
    return Entry(at, "armory", f"internal:{instance}", "", method, outcome, code=code)
