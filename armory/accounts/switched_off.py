"""Deactivated users, in memory, for gateways without accounts.

Owns: following their changes. Satisfies `security.authentication.Admission`. Never asks the
database for a user who has not changed, so that such a gateway keeps serving while the database is
down.
"""

from __future__ import annotations

from itertools import count

from sqlalchemy import select

from armory.accounts.users import USER, UserSwitchedOff
from armory.domain.principal import Principal
from armory.errors import BackendError
from armory.logger import Logger
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.tables import users
from armory.tasks import Flights

_log = Logger(__name__)


class SwitchedOff:
    """The deactivated users.

    Args:
        database: where users are.
        feed: tells of changes.
    """

    def __init__(self, database: Database, feed: ChangeFeed) -> None:
        self._database = database
        self._off: set[str] = set()
        self._changes = count(1)
        self._unread: dict[str, int] = {}
        self._flights: Flights[None] = Flights()
        feed.subscribe(USER, self._changed)

    async def load(self) -> None:
        """Load the deactivated users.

        Raises:
            BackendError: the database cannot be asked.
        """
        async with self._database.read() as connection:
            found = await connection.execute(select(users.c.id).where(~users.c.is_active))
            self._off = set(found.scalars())

    async def admit(self, principal: Principal) -> None:
        """Admit a principal whose user is not deactivated.

        Raises:
            UserSwitchedOff: the user is deactivated.
            BackendError: its user has changed, and the database could not be asked since.
        """
        user = principal.user
        if user is None:
            return
        while user in self._unread:
            await self._refresh(user)
        if user in self._off:
            raise UserSwitchedOff

    async def _changed(self, user: str) -> None:
        self._unread[user] = next(self._changes)
        self._flights.forget(user)
        try:
            await self._refresh(user)
        except BackendError as error:  # asked again before the next request of this user
            _log.warning("user_not_read", error=error.message)

    async def _refresh(self, user: str) -> None:
        await self._flights.join(user, lambda: self._read(user))

    async def _read(self, user: str) -> None:
        before = self._unread.get(user)
        async with self._database.read() as connection:
            asked = select(users.c.is_active).where(users.c.id == user)
            is_active = (await connection.execute(asked)).scalar()
        if self._unread.get(user) != before:  # changed again meanwhile, and read again
            return
        self._unread.pop(user, None)
        if is_active is False:
            self._off.add(user)
        else:
            self._off.discard(user)
