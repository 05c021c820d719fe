"""Reads the audit: filters its records, and verifies its chain.

Owns: where the records are read from. Never writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sqlalchemy import select

from armory.audit.checking import Check, Verdict, verify
from armory.audit.record import COLUMN_CHARS, column, parsed
from armory.errors import ConfigError
from armory.storage.database import Database
from armory.storage.tables import audit as table

_PAGE = 5_000


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A filter for records.

    Attributes:
        who, tool: glob patterns; None: any.
        since: the oldest time, as records have it; None: any.
    """

    who: str | None = None
    tool: str | None = None
    since: str | None = None

    def fits(self, record: dict[str, object]) -> bool:
        """Whether a record matches."""
        if self.since is not None and str(record.get("at")) < self.since:
            return False
        for pattern, value in ((self.who, record.get("who")), (self.tool, record.get("tool"))):
            if pattern is not None and not fnmatchcase(str(value or ""), pattern):
                return False
        return True


def file_lines(files: Iterable[Path]) -> Iterator[bytes]:
    """The lines of the files, in this order.

    Raises:
        ConfigError: one cannot be read.
    """
    for file in files:
        try:
            with file.open("rb") as opened:
                yield from (line.rstrip(b"\n") for line in opened)
        except OSError as error:
            # it may be one that the configuration does not name
            raise ConfigError(f"the audit {file} cannot be read: {error.strerror}") from None


@asynccontextmanager
async def database_lines(url: str, *, in_use: bool = False) -> AsyncGenerator[AsyncGenerator[str]]:
    """The records of a database, in order, exactly as written.

    Args:
        url: of the database.
        in_use: this process writes there: it is read as it is, also where a newer Armory has
            upgraded its schema since.

    Raises:
        BackendError: it cannot be reached.
    """
    database = Database(url)
    if not in_use:
        await database.open()
    try:
        yield _rows(database)
    finally:
        await database.close()


async def _rows(database: Database) -> AsyncGenerator[str]:
    after = -1
    while True:
        page = (
            select(table.c.seq, table.c.at_ms, table.c.who, table.c.tool, table.c.record)
            .where(table.c.seq > after)
            .order_by(table.c.seq)
            .limit(_PAGE)
        )
        async with database.read() as connection:
            found = (await connection.execute(page)).all()
        for row in found:
            after = row.seq
            yield row.record if _agrees(row) else f"{row.record} changed"
        if len(found) < _PAGE:
            return


def _agrees(row: object) -> bool:
    """Whether the searchable columns agree with the record."""
    record = parsed(getattr(row, "record"))  # noqa: B009
    if record is None:
        return False
    tool = record.get("tool")
    kept = getattr(row, "tool")  # noqa: B009
    return (
        record.get("seq") == getattr(row, "seq")  # noqa: B009
        and _is_column(getattr(row, "who"), str(record.get("who")))  # noqa: B009
        and (kept is None if tool is None else _is_column(kept, str(tool)))
    )


def _is_column(kept: object, text: str) -> bool:
    """Whether a column holds a text of its record; older rows of SQLite have a NUL unchanged."""
    return kept == column(text) or kept == text[:COLUMN_CHARS]


async def records(
    url: str | None,
    files: Sequence[Path],
    wanted: RecordFilter,
    limit: int,
    *,
    in_use: bool = False,
) -> list[dict[str, object]]:
    """The latest matching records, oldest first.

    Args:
        url: of the database; None: they are in files.
        files: in this order.
        wanted: which.
        limit: how many at most.
        in_use: as of `database_lines`.

    Raises:
        ArmoryError: they cannot be read.
    """
    kept: deque[dict[str, object]] = deque(maxlen=limit)
    if url is None:
        for line in file_lines(files):
            _keep(kept, wanted, line)
        return list(kept)
    async with database_lines(url, in_use=in_use) as lines:
        async for line in lines:
            _keep(kept, wanted, line)
    return list(kept)


def _keep(kept: deque[dict[str, object]], wanted: RecordFilter, line: bytes | str) -> None:
    record = parsed(line)
    if record is not None and wanted.fits(record):
        kept.append(record)


async def checked(url: str | None, files: list[Path]) -> Verdict:
    """Verify the whole chain.

    Raises:
        ArmoryError: it cannot be read.
    """
    if url is None:
        return verify(file_lines(files), whole=False)
    check = Check()
    async with database_lines(url) as lines:
        async for line in lines:
            if not check.add(line):
                break
    return check.ended(whole=True)
