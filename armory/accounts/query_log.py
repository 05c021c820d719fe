"""The query log: queries and their results, for statistics and tuning.

Owns: redaction, the bounded queue, storing and retention. Never delays a response: when the queue
is full, the record is dropped and counted.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import delete, func, insert, or_, select

from armory.domain.principal import OWNER_CHARS
from armory.errors import ConfigError
from armory.storage.database import Database, now_ms
from armory.storage.tables import query_log

_DAY_MS = 86_400_000
_QUEUE = 10_000
_QUEUE_CHARS = 8_000_000
"""Characters of all queries that wait to be stored; a single one may have 8,000."""
_BATCH = 500
KEPT = 1_000_000
"""Records that stay, the newest: of 8,000 characters each they fill a disk in hours."""
_PRUNE_AFTER = 100_000
"""Stored queries after which old ones are deleted, at the latest."""
_RETURNED = 50
_OWN_KEY = re.compile(r"acx_[A-Za-z0-9_-]{8,}")
_KINDS = ("sk", "ghp", "gho", "xoxa", "xoxb", "xoxp", "xoxr", "glpat")
_KEY = re.compile(rf"\b(?:{'|'.join(_KINDS)})[-_][A-Za-z0-9_-]{{16,}}")
_KEYS_BEGIN = tuple(kind + sign for kind in _KINDS for sign in "-_")
_JWT = re.compile(  # sought once in a run of characters
    r"(?<![A-Za-z0-9_-])(?>(?:[A-Za-z0-9_-]*?\b)?eyJ)"
    r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+"
)
_BEARER = re.compile(r"(?i:bearer\s++)[A-Za-z0-9._~+/-]{12,}")
REDACTED = "[redacted]"


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """One query.

    Attributes:
        query_id: as the answer gave it.
        user: who asked, or None.
        surface: where (`v1`, `v2`, `rest`, `mcp` ...).
        query: the texts, redacted when stored.
        returned: exposed names, best first; the first 50 are stored.
        visible: number of tools searched.
        top_score: best score.
        took_ms: milliseconds.
        degraded: what was lost, or None.
        at_ms: when it was asked, milliseconds since 1970; 0: as it is added.
    """

    query_id: str
    user: str | None
    surface: str
    query: str
    returned: tuple[str, ...]
    visible: int
    top_score: float
    took_ms: float
    degraded: str | None = None
    at_ms: int = 0


class QueryLog:
    """The query log of one database.

    Args:
        database: where it is.
        enabled: whether anything is recorded.
        retention_days: days until a record is deleted.
        redact: regular expressions; what they match is replaced, beside known forms of secrets.

    Raises:
        ConfigError: an expression of `redact` does not compile.
    """

    def __init__(
        self,
        database: Database,
        *,
        enabled: bool,
        retention_days: int,
        redact: Iterable[str] = (),
    ) -> None:
        self._database = database
        self._enabled = enabled
        self._retention_days = retention_days
        self._queue: deque[QueryRecord] = deque()
        self._gone: set[str] = set()
        """Users who were deleted while records were made ready, or waited, to be stored."""
        self._chars = 0
        self._since_pruned = 0
        self.dropped = 0
        self._patterns: list[re.Pattern[str]] = []
        for place, text in enumerate(redact):
            try:
                self._patterns.append(re.compile(text))
            except re.error as error:
                raise ConfigError(
                    f"{text!r} is not a regular expression ({error})",
                    path=f"observability.query_log.redact[{place}]",
                ) from None

    def __len__(self) -> int:
        return len(self._queue)

    def redacted(self, text: str) -> str:
        """The text with secrets and matches of `redact` replaced."""
        lowered = text.lower()  # all four take two milliseconds of a long text that has none
        if "acx_" in lowered:
            text = _OWN_KEY.sub(REDACTED, text)
        if any(begin in lowered for begin in _KEYS_BEGIN):
            text = _KEY.sub(REDACTED, text)
        if "eyj" in lowered:
            text = _JWT.sub(REDACTED, text)
        if "bearer" in lowered:
            text = _BEARER.sub(REDACTED, text)
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        return text.replace("\x00", "").encode("utf-8", "replace").decode()

    def add(self, record: QueryRecord) -> None:
        """Queue a record to be stored soon. Neither blocks nor raises."""
        if not self._enabled:
            return
        chars = len(record.query)
        if len(self._queue) >= _QUEUE or self._chars + chars > _QUEUE_CHARS:
            self.dropped += 1
            return
        self._chars += chars
        self._queue.append(replace(record, at_ms=record.at_ms or now_ms()))

    def forget(self, user: str) -> None:
        """Delete a deleted user's queries: a later user of that name is somebody else."""
        self._gone.add(user)
        self._queue = deque(record for record in self._queue if record.user != user)
        self._chars = sum(len(record.query) for record in self._queue)

    async def flush(self) -> None:
        """Store the queued records; if that fails, they stay queued.

        Raises:
            BackendError: the database failed.
        """
        self._gone.clear()
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]
            self._chars -= sum(len(record.query) for record in batch)
            try:
                made = await asyncio.to_thread(self._made, batch)  # long texts take long to redact
            except asyncio.CancelledError:  # the gateway ends, and flushes once more
                self._put_back(batch)
                raise
            try:
                async with self._database.write() as connection:
                    rows = [row for row in made if row["user_id"] not in self._gone]
                    if rows:
                        await connection.execute(insert(query_log), rows)
                self._since_pruned += len(rows)
            except BaseException:  # also where the end does not wait any more: it tells how many
                self._put_back(batch)
                raise
            if self._since_pruned >= _PRUNE_AFTER:
                await self.prune()

    def _put_back(self, batch: Sequence[QueryRecord]) -> None:
        kept = [record for record in batch if record.user not in self._gone]
        self._queue.extendleft(reversed(kept))
        self._chars += sum(len(record.query) for record in kept)

    async def prune(self) -> int:
        """Delete records past their retention, or beyond `KEPT`; returns how many.

        Raises:
            BackendError: the database failed.
        """
        self._since_pruned = 0
        limit = now_ms() - self._retention_days * _DAY_MS
        async with self._database.write() as connection:
            newest = (await connection.execute(select(func.max(query_log.c.id)))).scalar_one()
            beyond = query_log.c.id <= (newest or 0) - KEPT
            gone = await connection.execute(
                delete(query_log).where(or_(query_log.c.at_ms < limit, beyond))
            )
            return int(gone.rowcount)

    async def recent(self, *, user: str | None = None, limit: int = 100) -> list[QueryRecord]:
        """The latest records of one user, or of all, newest first."""
        statement = select(query_log).order_by(query_log.c.at_ms.desc(), query_log.c.id.desc())
        if user is not None:
            statement = statement.where(query_log.c.user_id == user[:OWNER_CHARS])
        async with self._database.read() as connection:
            rows = (await connection.execute(statement.limit(limit))).all()
        return [
            QueryRecord(
                row.query_id,
                row.user_id,
                row.surface,
                row.query,
                tuple(row.returned),
                row.visible,
                row.top_score,
                row.took_ms,
                row.degraded,
                row.at_ms,
            )
            for row in rows
        ]

    def _made(self, batch: list[QueryRecord]) -> list[dict[str, object]]:
        return [self._row(record) for record in batch]

    def _row(self, record: QueryRecord) -> dict[str, object]:
        return {
            "query_id": record.query_id,
            "at_ms": record.at_ms,
            "user_id": None if record.user is None else record.user[:OWNER_CHARS],
            "surface": record.surface,
            "query": self.redacted(record.query),
            "returned": list(record.returned[:_RETURNED]),
            "visible": record.visible,
            "top_score": record.top_score,
            "took_ms": record.took_ms,
            "degraded": record.degraded,
        }
