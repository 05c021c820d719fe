"""Users, to whom keys, packs and usage belong.

Owns: creating, finding, deactivating and deleting users. Never imports the surfaces above.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from armory.accounts.listings import User, users_listed
from armory.accounts.names import AlreadyExists, check_name
from armory.errors import AuthenticationFailed, InvalidRequest
from armory.storage.changes import LEARNED_USES, ChangeFeed, Transaction
from armory.storage.connection import AsyncConnection
from armory.storage.database import Database, now_ms
from armory.storage.logins import forget_person
from armory.storage.tables import (
    api_keys,
    installations,
    learned_uses,
    packs,
    query_log,
    query_months,
    user_tools,
    users,
)

USER = "user"
PACK = "pack"
KEY = "key"
ENDED = "ended"
"""Topic of keys, by id, whose sessions and streams end."""
SWITCHED_OFF = "off"
"""Topic of users, by id: those of all their credentials end."""
DELETED = "deleted"
"""Topic of users, by id: who is called so next is somebody else."""


class UserSwitchedOff(AuthenticationFailed):
    """The credential belongs to a deactivated user."""

    def __init__(self) -> None:
        super().__init__("this user's account is switched off")


class Users:
    """The users of one database.

    Args:
        database: where they are.
        feed: tells every process of changes.
        default_plan: plan of users that were given none.
        plans: the plans that there are; no others are given.
    """

    def __init__(
        self,
        database: Database,
        feed: ChangeFeed,
        *,
        default_plan: str = "free",
        plans: Collection[str] = ("free",),
    ) -> None:
        self._database = database
        self._feed = feed
        self._default_plan = default_plan
        self._plans = plans

    async def create(self, user_id: str, plan: str | None = None) -> User:
        """Create a user.

        Raises:
            InvalidRequest: the id cannot be used, or there is no such plan; `AlreadyExists`: the
                id is taken.
        """
        check_name(user_id, "id")
        chosen = self._default_plan if plan is None else self._known(plan)
        made = User(user_id, chosen, is_active=True, created_at_ms=now_ms())
        try:
            async with self._feed.transaction() as change:
                await change.connection.execute(insert(users).values(**_row(made)))
                change.changed(USER, user_id)
        except IntegrityError:
            raise AlreadyExists(f"a user {user_id!r} exists already", parameter="id") from None
        return made

    async def ensure(self, connection: AsyncConnection, user_id: str, *, make: bool = True) -> None:
        """Create the user if missing, within a transaction of the caller.

        Raises:
            InvalidRequest: a name that cannot be used; there is no such user, and none is to be
                made.
        """
        if not make:
            known = select(users.c.id).where(users.c.id == user_id)
            known = known.with_for_update(read=True, key_share=True)  # nobody deletes it meanwhile
            if (await connection.execute(known)).first() is None:
                message = "there is no such user; create it first"
                raise InvalidRequest(message, parameter="user")
            return
        check_name(user_id, "user")
        made = User(user_id, self._default_plan, is_active=True, created_at_ms=now_ms())
        statement = self._database.upsert(users).values(**_row(made))
        await connection.execute(statement.on_conflict_do_nothing(index_elements=["id"]))

    async def get(self, user_id: str) -> User | None:
        """One user, or None."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(users).where(users.c.id == user_id))).first()
        return None if row is None else User(*row)

    async def list(self, *, after: str = "", limit: int = 1_000) -> list[User]:
        """Users by id, starting after `after`."""
        listing = users_listed(after=after, limit=limit)
        rows = await self._database.rows(listing.sql, listing.values)
        return [listing.row(*row) for row in rows]

    async def change(
        self, user_id: str, *, plan: str | None = None, is_active: bool | None = None
    ) -> User | None:
        """Change the plan, or activate and deactivate; None when there is no such user.

        Raises:
            InvalidRequest: there is no such plan.
        """
        values: dict[str, object] = {}
        if plan is not None:
            values["plan"] = self._known(plan)
        if is_active is not None:
            values["is_active"] = is_active
        if values:
            async with self._feed.transaction() as change:
                statement = update(users).where(users.c.id == user_id).values(**values)
                if not (await change.connection.execute(statement)).rowcount:
                    return None
                await self._tell(change, user_id, ended=is_active is False)
                if is_active is False:
                    change.changed(SWITCHED_OFF, user_id)
        return await self.get(user_id)

    async def delete(self, user_id: str) -> bool:
        """Delete a user with keys, packs, installations, logins at upstreams, logged queries,
        learned uses and statistics; returns whether there was any of that. A person who logged in
        with an identity provider, and has created nothing here, has no row.
        """
        async with self._feed.transaction() as change:
            connection = change.connection
            await self._tell(change, user_id, ended=True)
            change.changed(DELETED, user_id)
            taught = delete(learned_uses).where(learned_uses.c.user_id == user_id)
            gone = (await connection.execute(taught)).rowcount
            change.changed(LEARNED_USES, "")  # some of it may wait to be stored
            await _forget_packs(change, user_id)
            for counted in (user_tools, query_months, query_log):
                theirs = delete(counted).where(counted.c.user_id == user_id)
                gone += (await connection.execute(theirs)).rowcount
            gone += (await connection.execute(delete(users).where(users.c.id == user_id))).rowcount
            # who is called so next is somebody else
            gone += await forget_person(change, f"user:{user_id}")
            return gone > 0

    def _known(self, plan: str) -> str:
        if plan in self._plans:
            return plan
        known = ", ".join(sorted(self._plans)) or "none"
        raise InvalidRequest(
            f"there is no plan {check_name(plan, 'plan')!r}; accounts.plans has: {known}",
            parameter="plan",
        )

    async def _tell(self, change: Transaction, user_id: str, *, ended: bool) -> None:
        own = select(api_keys.c.id, api_keys.c.digest).where(api_keys.c.user_id == user_id)
        for row in (await change.connection.execute(own)).all():
            change.changed(KEY, row.digest)
            if ended:
                change.changed(ENDED, row.id)
        change.changed(USER, user_id)


async def _forget_packs(change: Transaction, user_id: str) -> None:
    """Uninstall a deleted user's packs for everybody else and announce it: a later pack with the
    same id is a different one.
    """
    own = select(packs.c.id).where(packs.c.owner == user_id)
    ids = list((await change.connection.execute(own)).scalars())
    if not ids:
        return
    for pack in ids:
        change.changed(PACK, pack)
    installed = (installations.c.kind == PACK) & installations.c.value.in_(ids)
    await change.connection.execute(delete(installations).where(installed))


def _row(user: User) -> dict[str, object]:
    return {
        "id": user.id,
        "plan": user.plan,
        "is_active": user.is_active,
        "created_at_ms": user.created_at_ms,
    }
