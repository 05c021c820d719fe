"""Reads the audit: filters its records, and verifies its chain.

Owns: where the records are read from. Never writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sqlalchemy import Row, Select, select

from armory.audit.checking import Check, Verdict, verify
from armory.audit.record import COLUMN_CHARS, column, parsed
from armory.errors import ConfigError
from armory.storage.database import Database
from armory.storage.tables import audit as table

_PAGE, _SMALL_PAGE = 5_000, 500
_ROUNDED_MS = 1_000
_COLUMNS = select(table.c.seq, table.c.at_ms, table.c.who, table.c.tool, table.c.record)


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
async def _opened(url: str, *, in_use: bool = False) -> AsyncGenerator[Database]:
    """The database with the records.

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
        yield database
    finally:
        await database.close()


async def _lines(database: Database) -> AsyncGenerator[str]:
    """The records of a database, in order, exactly as written."""
    after = -1
    while True:
        page = _COLUMNS.where(table.c.seq > after).order_by(table.c.seq).limit(_PAGE)
        found = await _rows(database, page)
        for row in found:
            after = row.seq
            yield _line(row)
        if len(found) < _PAGE:
            return


async def _latest(
    database: Database, wanted: RecordFilter, limit: int
) -> AsyncGenerator[dict[str, object]]:
    """The latest matching records of a database, the last one first. A year of them is not read
    for what happened today.
    """
    pages = _COLUMNS.order_by(table.c.seq.desc()).limit(max(_SMALL_PAGE, min(limit, _PAGE)))
    if (since_ms := _since_ms(wanted)) is not None:
        pages = pages.where(table.c.at_ms >= since_ms)
    page = pages
    while found := await _rows(database, page):
        for row in found:
            record = parsed(_line(row))
            if record is not None and wanted.fits(record):
                yield record
        page = pages.where(table.c.seq < found[-1].seq)


async def _rows(database: Database, page: Select[*tuple[Any, ...]]) -> Sequence[Row[Any]]:
    async with database.read() as connection:
        return (await connection.execute(page)).all()


def _since_ms(wanted: RecordFilter) -> int | None:
    """A time before which no record matches; the record itself says when it was."""
    if wanted.since is None:
        return None
    try:
        since = datetime.fromisoformat(wanted.since)
    except ValueError:
        return None
    return int(since.replace(tzinfo=since.tzinfo or UTC).timestamp() * 1_000) - _ROUNDED_MS


def _line(row: Row[Any]) -> str:
    return row.record if _agrees(row) else f"{row.record} changed"


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
    if url is None:
        read = map(parsed, file_lines(files))
        fits = (record for record in read if record is not None and wanted.fits(record))
        return list(deque(fits, maxlen=limit))
    kept: list[dict[str, object]] = []
    async with (
        _opened(url, in_use=in_use) as database,
        aclosing(_latest(database, wanted, limit)) as latest,
    ):
        async for record in latest:
            kept.append(record)
            if len(kept) == limit:
                break
    return kept[::-1]


async def checked(url: str | None, files: list[Path]) -> Verdict:
    """Verify the whole chain.

    Raises:
        ArmoryError: it cannot be read.
    """
    if url is None:
        return verify(file_lines(files), whole=False)
    check = Check()
    async with _opened(url) as database, aclosing(_lines(database)) as lines:
        async for line in lines:
            if not check.add(line):
                break
    return check.ended(whole=True)
