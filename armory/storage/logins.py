"""Logins of people at upstreams, sealed in the database, by hashes of person and upstream.

Owns: the table, and that one replica at a time refreshes a login. Never sees a token in clear.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from sqlalchemy import delete, select, update

from armory.errors import BackendError
from armory.logger import Logger
from armory.storage.changes import ChangeFeed, Transaction
from armory.storage.database import Database
from armory.storage.tables import logins

_log = Logger(__name__)
LOGINS = "logins"
"""Topic: a login came, changed or went; the value is its id."""
LEASE_MS = 20_000


def login_id(person: str, server: str) -> str:
    """The id of a stored login."""
    return hashlib.sha256(f"{person}\0{server}".encode()).hexdigest()


async def forget_person(change: Transaction, person: str) -> int:
    """Delete all logins of a person that is being deleted, within a transaction;
    returns how many.
    """
    whose = logins.c.person == hashlib.sha256(person.encode()).hexdigest()
    for row in (await change.connection.execute(select(logins.c.id).where(whose))).all():
        change.changed(LOGINS, row.id)
    return (await change.connection.execute(delete(logins).where(whose))).rowcount


class Seal(Protocol):
    """Encryption (`security.sealing.Seal`)."""

    def seal(self, data: bytes, purpose: str) -> bytes:
        """`data`, encrypted; it can only be decrypted for the same purpose."""
        ...

    def open(self, sealed: bytes, purpose: str) -> bytes | None:
        """Decrypt; None where it was not sealed with these keys for this purpose."""
        ...

    def is_newest(self, sealed: bytes, purpose: str) -> bool:
        """Whether the current key decrypts it."""
        ...


class StoredLogin:
    """One person's login at one upstream. Satisfies `upstreams.oauth.logins.LoginStore`.

    Args:
        database: keeps it.
        feed: tells other processes.
        seal: encrypts it.
        person: whose it is.
        server: key of the upstream.
        told: servers of whose logins the log has said that no key opens them.
    """

    def __init__(
        self,
        database: Database,
        feed: ChangeFeed,
        seal: Seal,
        person: str,
        server: str,
        told: set[str] | None = None,
    ) -> None:
        self._database = database
        self._feed = feed
        self._seal = seal
        self._person = hashlib.sha256(person.encode()).hexdigest()
        self._server = server
        self._told = set[str]() if told is None else told
        self._leased_until_ms = 0
        self.id = login_id(person, server)

    async def load(self) -> bytes | None:
        """The login; None where there is none, or none that these keys decrypt. A login that was
        sealed with an older key is sealed again with the newest: many logins are never refreshed.

        Raises:
            BackendError: the database failed.
        """
        async with self._database.read() as connection:
            query = select(logins.c.sealed).where(logins.c.id == self.id)
            sealed = (await connection.execute(query)).scalar_one_or_none()
        if sealed is None:
            return None
        opened = self._seal.open(sealed, self.id)
        if opened is None and self._server not in self._told:
            self._told.add(self._server)
            _log.warning(
                "logins_not_readable",
                upstream=self._server,
                message="no key of security.encryption_key, or the one in ARMORY_HOME, opens a "
                "login there; whose it is has to log in again",
            )
        if opened is not None and not self._seal.is_newest(sealed, self.id):
            with suppress(BackendError):  # the next time
                await self._seal_anew(sealed, opened)
        return opened

    async def _seal_anew(self, sealed: bytes, login: bytes) -> None:
        """Seal a login again with the newest key, unless it has changed since it was read."""
        there = (logins.c.id == self.id) & (logins.c.sealed == sealed)
        async with self._database.write() as connection:
            await connection.execute(
                update(logins).where(there).values(sealed=self._seal.seal(login, self.id))
            )

    async def save(self, login: bytes | None) -> None:
        """Store a login, or delete it (None); ends the lease.

        Raises:
            BackendError: the database failed.
        """
        async with self._feed.transaction() as transaction:
            if login is None:
                await transaction.connection.execute(delete(logins).where(logins.c.id == self.id))
            else:  # in one statement: two may come at once, e.g. of two browsers
                values = self._values(login)
                keys = {"id": self.id, "person": self._person, "server": self._server}
                row = self._database.upsert(logins).values(**keys, **values)
                await transaction.connection.execute(
                    row.on_conflict_do_update(index_elements=["id"], set_=values)
                )
            transaction.changed(LOGINS, self.id)

    async def replace(self, login: bytes, same: Callable[[bytes], bool]) -> bool:
        """As `save`, but only if the stored login is still `same`; returns whether it was.

        Raises:
            BackendError: the database failed.
        """
        async with self._feed.transaction() as transaction:
            # locked: another replica may be sealing it anew
            asked = select(logins.c.sealed).where(logins.c.id == self.id).with_for_update()
            sealed = (await transaction.connection.execute(asked)).scalar_one_or_none()
            opened = None if sealed is None else self._seal.open(sealed, self.id)
            if opened is None or not same(opened):
                return False
            mine = update(logins).where((logins.c.id == self.id) & (logins.c.sealed == sealed))
            done = await transaction.connection.execute(mine.values(**self._values(login)))
            if done.rowcount:
                transaction.changed(LOGINS, self.id)
        return bool(done.rowcount)

    def _values(self, login: bytes) -> dict[str, Any]:
        sealed, now = self._seal.seal(login, self.id), self._database.now_ms
        return {"sealed": sealed, "leased_until_ms": 0, "updated_at_ms": now}

    async def lease(self) -> bool:
        """Take the lease to refresh the login, for 20 seconds; returns whether this process has it.

        Raises:
            BackendError: the database failed.
        """
        now = self._database.now_ms
        until = logins.c.leased_until_ms
        ahead = until > now + LEASE_MS  # the clock was set back
        taken = (
            update(logins)
            .where((logins.c.id == self.id) & ((until < now) | ahead))
            .values(leased_until_ms=now + LEASE_MS)
            .returning(until)
        )
        async with self._database.write() as connection:
            mine = (await connection.execute(taken)).scalar_one_or_none()
        self._leased_until_ms = mine or 0
        return mine is not None

    async def release(self) -> None:
        """End the lease, if this process still has it: the login could not be refreshed.

        Raises:
            BackendError: the database failed.
        """
        mine = (logins.c.id == self.id) & (logins.c.leased_until_ms == self._leased_until_ms)
        async with self._database.write() as connection:
            await connection.execute(update(logins).where(mine).values(leased_until_ms=0))
