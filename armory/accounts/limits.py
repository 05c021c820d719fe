"""Limits on the packs, installations and keys of one user: their rows are read in one go, and very
many would delay everybody else's calls.

Owns: the limits and their checks. Whoever was above a limit before it existed keeps what it has,
and can add nothing.
"""

from __future__ import annotations

from sqlalchemy import delete, func, select

from armory.errors import InvalidRequest
from armory.storage.connection import AsyncConnection
from armory.storage.tables import api_keys, installations, pack_entries, packs

MAX_PACKS = 100
MAX_PACK_ENTRIES = 5_000
MAX_INSTALLATIONS = 2_000
MAX_KEYS = 1_000


class PackLimit:
    """The limit on the packs of one owner, checked at the end of a block in a transaction.

    Args:
        connection: that of the transaction.
        owner: whose packs; None: shared ones, of which administrators may make any number.
    """

    def __init__(self, connection: AsyncConnection, owner: str | None) -> None:
        self._connection = connection
        self._owner = owner
        self._before = 0, 0

    async def __aenter__(self) -> None:
        self._before = await self._taken()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Check the limit after the block's writes.

        Raises:
            InvalidRequest: they exceed it.
        """
        if kind is not None:
            return
        count, entries = await self._taken()
        if count > max(MAX_PACKS, self._before[0]):
            raise InvalidRequest(f"a user has at most {MAX_PACKS} packs; delete one first")
        if entries > max(MAX_PACK_ENTRIES, self._before[1]):
            raise InvalidRequest(
                f"the packs of a user have at most {MAX_PACK_ENTRIES:,} servers and tools together"
            )

    async def _taken(self) -> tuple[int, int]:
        """(number of packs, number of entries in them) of the owner."""
        if self._owner is None:
            return 0, 0
        own = select(packs.c.id).where(packs.c.owner == self._owner)
        statements = (
            select(func.count()).select_from(own.subquery()),
            select(func.count()).where(pack_entries.c.pack_id.in_(own)),
        )
        count, entries = [
            int((await self._connection.execute(statement)).scalar_one())
            for statement in statements
        ]
        return count, entries


async def installation_count(connection: AsyncConnection, user: str) -> int:
    """The number of a user's installations, active or not."""
    counting = select(func.count()).where(installations.c.user_id == user)
    return int((await connection.execute(counting)).scalar_one())


async def check_installation_limit(connection: AsyncConnection, user: str, before: int) -> None:
    """Check that a user who had `before` installations does not exceed the limit now.

    Raises:
        InvalidRequest: the user has more than the limit, and more than before.
    """
    if await installation_count(connection, user) > max(MAX_INSTALLATIONS, before):
        raise InvalidRequest(
            f"a user has at most {MAX_INSTALLATIONS:,} installations; uninstall some"
        )


async def check_key_limit(connection: AsyncConnection, user: str | None, now_ms: int) -> None:
    """Check that a user may have one more key; at the limit, keys that have ended are deleted. Of
    nobody in particular there may be more; there revoked ones are deleted.

    Raises:
        InvalidRequest: the limit is reached, and all keys are valid.
    """
    columns = api_keys.c
    whose = columns.user_id == user
    if (await connection.execute(select(func.count()).where(whose))).scalar_one() < MAX_KEYS:
        return
    ended = columns.revoked_at_ms.is_not(None)
    if user is not None:  # logins at upstreams are of a key without a user, until it is revoked
        ended |= columns.expires_at_ms <= now_ms
    gone = await connection.execute(delete(api_keys).where(whose, ended))
    if user is not None and not gone.rowcount:
        raise InvalidRequest(f"a user has at most {MAX_KEYS:,} keys; revoke one first")
