"""Grants of the gateway as an authorization server, sealed in the database.

Owns: the table, and that each step of a grant is taken once, by whichever replica. Never sees a
token in clear.
"""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.logins import Seal
from armory.storage.tables import oauth_grants

GRANTS = "grants"
"""Topic: a grant ended; the value is its id."""


class StoredGrants:
    """The grants of one database. Satisfies `authserver.kept_grants.GrantStore`.

    Args:
        database: keeps them.
        feed: tells other processes.
        seal: encrypts them.
    """

    def __init__(self, database: Database, feed: ChangeFeed, seal: Seal) -> None:
        self._database = database
        self._feed = feed
        self._seal = seal

    async def begin(self, id: str, life_s: float) -> bool:
        """Create a grant's id; returns whether it was new. Also deletes expired grants.

        Raises:
            BackendError: the database failed.
        """
        now = self._database.now_ms
        until = now + int(life_s * 1_000)
        values = {"id": id, "step": 0, "sealed": b"", "expires_at_ms": until}
        try:
            async with self._database.write() as connection:
                await connection.execute(
                    delete(oauth_grants).where(oauth_grants.c.expires_at_ms < now)
                )
                await connection.execute(insert(oauth_grants).values(**values))
        except IntegrityError:
            return False
        return True

    async def take(self, id: str, step: int, grant: bytes | None, life_s: float) -> bool:
        """Move a grant from `step` to the next; returns whether nobody else did so first.

        Args:
            id: of the grant.
            step: that it must be at.
            grant: what it becomes; None: it stays as it is.
            life_s: for how long it is kept from now on.

        Raises:
            BackendError: the database failed.
        """
        values = {} if grant is None else {"sealed": self._seal.seal(grant, id)}
        return await self._changed(id, step, life_s, step=step + 1, **values)

    async def put(self, id: str, step: int, grant: bytes, life_s: float) -> bool:
        """Store the new state of a grant at `step`; returns whether it was still at that step.

        Raises:
            BackendError: the database failed.
        """
        return await self._changed(id, step, life_s, sealed=self._seal.seal(grant, id))

    async def take_back(self, id: str, step: int, grant: bytes | None, life_s: float) -> None:
        """Undo the `take` of `step`.

        Args:
            id: of the grant.
            step: that it is at again.
            grant: what it became meanwhile; None: it stays as it is.
            life_s: for how long it is kept from now on.

        Raises:
            BackendError: the database failed.
        """
        values = {} if grant is None else {"sealed": self._seal.seal(grant, id)}
        await self._changed(id, step + 1, life_s, step=step, **values)

    async def _changed(self, id: str, at: int, life_s: float, **values: object) -> bool:
        now = self._database.now_ms
        there = (
            (oauth_grants.c.id == id)
            & (oauth_grants.c.step == at)
            & (oauth_grants.c.expires_at_ms > now)
        )
        until = now + int(life_s * 1_000)
        async with self._database.write() as connection:
            done = await connection.execute(
                update(oauth_grants).where(there).values(**values, expires_at_ms=until)
            )
        return bool(done.rowcount)

    async def load(self, id: str) -> tuple[int, bytes, float] | None:
        """(step, grant, seconds left); None where there is none, or none that these keys decrypt.

        Raises:
            BackendError: the database failed.
        """
        left_ms = (oauth_grants.c.expires_at_ms - self._database.now_ms).label("left_ms")
        found = select(oauth_grants.c.step, oauth_grants.c.sealed, left_ms)
        async with self._database.read() as connection:
            there = found.where(oauth_grants.c.id == id)
            row = (await connection.execute(there)).one_or_none()
        if row is None or not row.sealed or row.left_ms <= 0:
            return None
        opened = self._seal.open(row.sealed, id)
        return None if opened is None else (row.step, opened, row.left_ms / 1_000)

    async def end(self, id: str) -> None:
        """Delete a grant, on every replica.

        Raises:
            BackendError: the database failed.
        """
        async with self._feed.transaction() as transaction:
            await transaction.connection.execute(
                delete(oauth_grants).where(oauth_grants.c.id == id)
            )
            transaction.changed(GRANTS, id)
