"""Limits on the packs, installations and keys of one user: their rows are read in one go, and very
many would delay everybody else's calls.

Owns: these limits. What existed before a limit may stay; nothing is added to it.
"""

from __future__ import annotations

from sqlalchemy import delete, func, or_, select

from armory.errors import InvalidRequest
from armory.storage.connection import AsyncConnection
from armory.storage.tables import api_keys, installations, pack_entries, packs

PACKS = 100
ENTRIES = 5_000
INSTALLATIONS = 2_000
KEYS = 1_000


class PackRoom:
    """The limit on the packs of one owner, checked at the end of a block in a transaction.

    Args:
        connection: of the transaction.
        owner: None: packs that are shared, of which administrators may make any number.
    """

    def __init__(self, connection: AsyncConnection, owner: str | None) -> None:
        self._connection = connection
        self._owner = owner
        self._before = 0, 0

    async def __aenter__(self) -> None:
        self._before = await self._taken()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Check that what was written in the block is within the limit.

        Raises:
            InvalidRequest: it does not.
        """
        if kind is not None:
            return
        many, entries = await self._taken()
        if many > max(PACKS, self._before[0]):
            raise InvalidRequest(f"a user has at most {PACKS} packs; delete one first")
        if entries > max(ENTRIES, self._before[1]):
            raise InvalidRequest(
                f"the packs of a user have at most {ENTRIES:,} servers and tools together"
            )

    async def _taken(self) -> tuple[int, int]:
        """(packs, entries of them)."""
        if self._owner is None:
            return 0, 0
        own = select(packs.c.id).where(packs.c.owner == self._owner)
        many = select(func.count()).select_from(own.subquery())
        listed = select(func.count()).where(pack_entries.c.pack_id.in_(own))
        found = [(await self._connection.execute(each)).scalar_one() for each in (many, listed)]
        return int(found[0]), int(found[1])


async def installations_of(connection: AsyncConnection, user: str) -> int:
    """The number of a user's installations, active or not."""
    counting = select(func.count()).where(installations.c.user_id == user)
    return int((await connection.execute(counting)).scalar_one())


async def check_installations(connection: AsyncConnection, user: str, before: int) -> None:
    """Check that a user who had `before` installations does not exceed the limit now.

    Raises:
        InvalidRequest: it has.
    """
    if await installations_of(connection, user) > max(INSTALLATIONS, before):
        raise InvalidRequest(f"a user has at most {INSTALLATIONS:,} installations; uninstall some")


async def room_for_key(connection: AsyncConnection, user: str, now_ms: int) -> None:
    """Check that a user may have one more key; ended keys are deleted if the limit is reached.

    Raises:
        InvalidRequest: all of them hold.
    """
    columns = api_keys.c
    counting = select(func.count()).where(columns.user_id == user)
    if (await connection.execute(counting)).scalar_one() < KEYS:
        return
    ended = or_(columns.revoked_at_ms.is_not(None), columns.expires_at_ms <= now_ms)
    gone = await connection.execute(delete(api_keys).where(columns.user_id == user, ended))
    if not gone.rowcount:
        raise InvalidRequest(f"a user has at most {KEYS:,} keys; revoke one first")
