"""Stored uses: queries that led to a tool, kept over restarts and shared by replicas.

Owns: the statements over `learned_uses`. Never decides what is learned, never embeds anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, ColumnElement, Select, delete, func, literal, select, tuple_

from armory.domain.principal import OWNER_CHARS
from armory.feedback.vectors import USER_TOTAL
from armory.storage.changes import LEARNED_USES, ChangeFeed
from armory.storage.database import Database, now_ms
from armory.storage.tables import learned_uses

MOST = 20_000
_USES = learned_uses.c
_KEY = tuple_(_USES.tool, _USES.user_id, _USES.key)
_LATE_MS = 15_000


@dataclass(frozen=True, slots=True, eq=False)
class StoredUse:
    """One remembered use.

    Attributes:
        tool: exposed name.
        user: who called.
        key: hash of the query.
        query: its text, redacted.
        embedder: identity of the embedder whose the vector is.
        vector: (d,) float32 unit vector, kept with half the precision.
        at_ms: when it was last used, milliseconds since 1970.
    """

    tool: str
    user: str
    key: str
    query: str
    embedder: str
    vector: NDArray[np.float32]
    at_ms: int


class StoredUses:
    """The remembered uses of one database.

    Args:
        database: where they are.
        feed: told when some are forgotten, so that every process forgets them.
        most: so many are kept; the oldest go first.
        of_one: so many of one user, who would make all others' go else.
    """

    def __init__(
        self,
        database: Database,
        feed: ChangeFeed,
        *,
        most: int = MOST,
        of_one: int = USER_TOTAL,
    ) -> None:
        self._database = database
        self._feed = feed
        self._most = most
        self._of_one = of_one

    async def add(self, uses: Sequence[StoredUse]) -> None:
        """Store uses; for existing ones the time is updated.

        Raises:
            BackendError: the database failed; nothing was stored.
        """
        columns = learned_uses.c
        async with self._database.write() as connection:
            for use in sorted(uses, key=lambda use: (use.tool, use.user, use.key)):
                values = {
                    "query": use.query,
                    "embedder": use.embedder,
                    "vector": use.vector.astype("<f2").tobytes(),
                    "used_at_ms": use.at_ms,
                    "updated_at_ms": self._database.now_ms,
                }
                row = self._database.upsert(learned_uses).values(
                    tool=use.tool[:OWNER_CHARS],
                    user_id=use.user[:OWNER_CHARS],
                    key=use.key,
                    **values,
                )
                await connection.execute(
                    row.on_conflict_do_update(
                        index_elements=[columns.tool, columns.user_id, columns.key], set_=values
                    )
                )

    async def since(self, updated_at_ms: int = 0) -> tuple[list[StoredUse], int]:
        """The uses stored since a time of the database's clock, oldest first, and the time for the
        next call.

        Raises:
            BackendError: the database failed.
        """
        columns = learned_uses.c
        seen = literal(updated_at_ms, BigInteger)
        newest = (
            select(learned_uses)
            .where(columns.updated_at_ms >= self._database.not_after_now(seen, _LATE_MS))
            .where(_KEY.not_in(self._beyond_one()))
            .order_by(columns.used_at_ms.desc())
            .limit(self._most)
        )
        async with self._database.read() as connection:
            rows = (await connection.execute(newest)).all()
        found = [
            StoredUse(
                row.tool,
                row.user_id,
                row.key,
                row.query,
                row.embedder,
                np.frombuffer(row.vector, "<f2").astype(np.float32),
                row.used_at_ms,
            )
            for row in reversed(rows)
        ]
        last = max((row.updated_at_ms for row in rows), default=0)
        return found, max(updated_at_ms, last - _LATE_MS)

    async def count(self) -> int:
        """The number of stored uses.

        Raises:
            BackendError: the database failed.
        """
        counting = select(func.count()).select_from(learned_uses)
        async with self._database.read() as connection:
            return int((await connection.execute(counting)).scalar_one())

    async def forget(self, *, tool: str | None = None, user: str | None = None) -> int:
        """Delete the uses of a tool, of a user, of both together, or all; returns how many. Running
        gateways are notified.

        Raises:
            BackendError: the database failed.
        """
        async with self._feed.transaction() as transaction:
            gone = await transaction.connection.execute(
                delete(learned_uses).where(*_chosen(tool, user))
            )
            if gone.rowcount:
                transaction.changed(LEARNED_USES, "")
        return int(gone.rowcount)

    async def prune(self, older_than_days: int) -> int:
        """Delete uses that are too old to count, and the oldest beyond `of_one` and `most`; returns
        how many.

        Raises:
            BackendError: the database failed.
        """
        column = learned_uses.c.used_at_ms
        oldest = select(column).order_by(column.desc()).offset(self._most).limit(1)
        async with self._database.write() as connection:
            of_one = await connection.execute(
                delete(learned_uses).where(_KEY.in_(self._beyond_one()))
            )
            beyond = (await connection.execute(oldest)).scalar_one_or_none()
            limit = max(now_ms() - older_than_days * 86_400_000, 0 if beyond is None else beyond)
            gone = await connection.execute(delete(learned_uses).where(column <= limit))
        return int(of_one.rowcount + gone.rowcount)

    def _beyond_one(self) -> Select[Any, Any, Any]:
        """The keys of each user's uses beyond the latest `of_one`."""
        latest = func.row_number().over(
            partition_by=_USES.user_id, order_by=(_USES.used_at_ms.desc(), _USES.tool, _USES.key)
        )
        ranked = select(_USES.tool, _USES.user_id, _USES.key, latest.label("place")).subquery()
        of = ranked.c
        return select(of.tool, of.user_id, of.key).where(of.place > self._of_one)


def _chosen(tool: str | None, user: str | None) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if tool is not None:
        found.append(learned_uses.c.tool == tool)
    if user is not None:
        found.append(learned_uses.c.user_id == user)
    return found
