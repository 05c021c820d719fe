"""Packs (named lists of servers and tools) and the installations of each user.

Owns: the rows, and who may change which. Never decides what is visible: `scopes` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import ColumnElement, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from armory.accounts.limits import PackLimit, check_installation_limit, installation_count
from armory.accounts.names import AlreadyExists, check_name, check_pack_id
from armory.accounts.users import PACK, USER, Users
from armory.errors import InvalidRequest
from armory.storage.changes import ChangeFeed
from armory.storage.connection import AsyncConnection
from armory.storage.database import Database, now_ms
from armory.storage.tables import installations, pack_entries, packs

Kind = Literal["pack", "server", "tool"]
DESCRIPTION_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack.

    Attributes:
        id: unique, in URLs and on the command line.
        owner: the user whose own it is; None: shared with everybody.
        title, description: for people.
        servers: server keys whose every tool is in it.
        tools: exposed names of single tools.
    """

    id: str
    owner: str | None
    title: str
    description: str = ""
    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Installation:
    """A pack, server or tool that a user has installed."""

    kind: Kind
    value: str
    is_active: bool
    installed_at_ms: int


class Packs:
    """The packs and installations of one database.

    A `user` argument None means the administration, which sees and may change every pack.
    Whatever a user may not see is answered like what does not exist.
    """

    def __init__(self, database: Database, feed: ChangeFeed, users: Users) -> None:
        self._database = database
        self._feed = feed
        self._users = users

    async def create(self, pack: Pack, *, make_user: bool = True) -> Pack:
        """Create a pack; its owner is created if missing and `make_user` is set.

        Raises:
            InvalidRequest: a name that cannot be used, no such user, or one that has too many;
                `AlreadyExists`: the id is taken.
        """
        pack = _checked(pack)
        at_ms = now_ms()
        try:
            async with self._feed.transaction() as change:
                if pack.owner is not None:
                    await self._users.ensure(change.connection, pack.owner, make=make_user)
                row = {"id": pack.id, "owner": pack.owner, "title": pack.title}
                times = {"created_at_ms": at_ms, "updated_at_ms": at_ms}
                async with PackLimit(change.connection, pack.owner):
                    await change.connection.execute(
                        insert(packs).values(**row, description=pack.description, **times)
                    )
                    await _write_entries(change.connection, pack)
                change.changed(PACK, pack.id)
        except IntegrityError:
            raise AlreadyExists(f"a pack {pack.id!r} exists already", parameter="id") from None
        return pack

    async def replace(self, pack: Pack, *, user: str | None) -> Pack | None:
        """Replace the contents of a pack; None when `user` has no such pack.

        Raises:
            InvalidRequest: a name that cannot be used, or more than a user's packs may hold.
        """
        pack = _checked(pack)
        async with self._feed.transaction() as change:
            statement = update(packs).where(packs.c.id == pack.id, *_owned(user))
            changed = await change.connection.execute(
                statement.values(
                    title=pack.title, description=pack.description, updated_at_ms=now_ms()
                )
            )
            if not changed.rowcount:
                return None
            async with PackLimit(change.connection, pack.owner):
                await change.connection.execute(
                    delete(pack_entries).where(pack_entries.c.pack_id == pack.id)
                )
                await _write_entries(change.connection, pack)
            change.changed(PACK, pack.id)
        return await self.get(pack.id, user=user)

    async def delete(self, pack_id: str, *, user: str | None) -> bool:
        """Delete a pack and its installations; returns whether `user` had such a pack."""
        async with self._feed.transaction() as change:
            gone = await change.connection.execute(
                delete(packs).where(packs.c.id == pack_id, *_owned(user))
            )
            if not gone.rowcount:
                return False
            # First the news, so that whoever has it installed loses it too.
            change.changed(PACK, pack_id)
            await change.connection.execute(
                delete(installations).where(
                    installations.c.kind == PACK, installations.c.value == pack_id
                )
            )
        return True

    async def get(self, pack_id: str, *, user: str | None) -> Pack | None:
        """One pack, if `user` may see it."""
        found = await self._select([packs.c.id == pack_id, *_seen(user)], 1)
        return found[0] if found else None

    async def list(self, *, user: str | None, after: str = "", limit: int = 1_000) -> list[Pack]:
        """The packs that `user` may see, by id, starting after `after`."""
        return await self._select([packs.c.id > after, *_seen(user)], limit)

    async def install(
        self,
        user: str,
        items: Sequence[tuple[Kind, str]],
        *,
        sees_all: bool = False,
        make_user: bool = True,
    ) -> list[Installation]:
        """Record installations and make them active; the user is created if missing and `make_user`
        is set.

        Raises:
            InvalidRequest: a pack that `user` may not see, a name that cannot be used, no such
                user, or one that has too many.
        """
        at_ms = now_ms()
        for kind, value in items:
            check_name(value, "pack_id" if kind == PACK else kind)
        async with self._feed.transaction() as change:
            await self._users.ensure(change.connection, user, make=make_user)
            before = await installation_count(change.connection, user)
            for kind, value in items:
                if kind == PACK:
                    seen = _seen(None if sees_all else user)
                    statement = select(packs.c.id).where(packs.c.id == value, *seen)
                    # who deletes it meanwhile waits, and finds this installation as well
                    statement = statement.with_for_update(read=True, key_share=True)
                    if (await change.connection.execute(statement)).first() is None:
                        raise InvalidRequest("there is no such pack", parameter="pack_id")
                row = self._database.upsert(installations).values(
                    user_id=user, kind=kind, value=value, is_active=True, installed_at_ms=at_ms
                )
                await change.connection.execute(
                    row.on_conflict_do_update(
                        index_elements=["user_id", "kind", "value"], set_={"is_active": True}
                    )
                )
            await check_installation_limit(change.connection, user, before)
            change.changed(USER, user)
        return await self.installed(user)

    async def set_active(self, user: str, kind: Kind, value: str, *, active: bool) -> bool:
        """Enable or disable an installation; returns whether `user` has it."""
        async with self._feed.transaction() as change:
            statement = update(installations).where(*_of(user, kind, value))
            done = await change.connection.execute(statement.values(is_active=active))
            if done.rowcount:
                change.changed(USER, user)
            return bool(done.rowcount)

    async def uninstall(self, user: str, kind: Kind, value: str) -> bool:
        """Delete an installation; returns whether `user` had it."""
        async with self._feed.transaction() as change:
            done = await change.connection.execute(
                delete(installations).where(*_of(user, kind, value))
            )
            if done.rowcount:
                change.changed(USER, user)
            return bool(done.rowcount)

    async def installed(self, user: str) -> list[Installation]:
        """The installations of `user`, active or not."""
        columns = installations.c
        statement = (
            select(columns.kind, columns.value, columns.is_active, columns.installed_at_ms)
            .where(columns.user_id == user)
            .order_by(columns.kind, columns.value)
        )
        async with self._database.read() as connection:
            return [Installation(*row) for row in await connection.execute(statement)]

    async def _select(self, where: Iterable[ColumnElement[bool]], limit: int) -> list[Pack]:
        async with self._database.read() as connection:
            statement = select(packs).where(*where).order_by(packs.c.id).limit(limit)
            rows = (await connection.execute(statement)).all()
            entries: dict[str, dict[str, list[str]]] = {row.id: {} for row in rows}
            chosen = pack_entries.c.pack_id.in_(list(entries))
            order = (pack_entries.c.pack_id, pack_entries.c.value)
            listed = select(pack_entries).where(chosen).order_by(*order)
            for pack_id, kind, value in await connection.execute(listed):
                entries[pack_id].setdefault(kind, []).append(value)
        return [
            Pack(
                row.id,
                row.owner,
                row.title,
                row.description,
                tuple(entries[row.id].get("server", ())),
                tuple(entries[row.id].get("tool", ())),
            )
            for row in rows
        ]


def _checked(pack: Pack) -> Pack:
    """A pack with each of its entries once, after validation.

    Raises:
        InvalidRequest: a name that cannot be used, or a description that is too long.
    """
    check_pack_id(pack.id)
    check_name(pack.title, "title")
    if len(pack.description) > DESCRIPTION_CHARS:
        raise InvalidRequest(
            f"description has {len(pack.description):,} characters; at most {DESCRIPTION_CHARS:,}",
            parameter="description",
        )
    for parameter, values in (("servers", pack.servers), ("tools", pack.tools)):
        for value in values:
            check_name(value, parameter)
    return replace(pack, servers=_once(pack.servers), tools=_once(pack.tools))


def _seen(user: str | None) -> list[ColumnElement[bool]]:
    return [] if user is None else [or_(packs.c.owner.is_(None), packs.c.owner == user)]


def _owned(user: str | None) -> list[ColumnElement[bool]]:
    return [] if user is None else [packs.c.owner == user]


def _of(user: str, kind: Kind, value: str) -> list[ColumnElement[bool]]:
    columns = installations.c
    return [columns.user_id == user, columns.kind == kind, columns.value == value]


def _once(values: Iterable[str]) -> tuple[str, ...]:
    """The values without duplicates, in order."""
    return tuple(dict.fromkeys(values))


async def _write_entries(connection: AsyncConnection, pack: Pack) -> None:
    kinds = [("server", value) for value in pack.servers]
    kinds += [("tool", value) for value in pack.tools]
    rows = [{"pack_id": pack.id, "kind": kind, "value": value} for kind, value in kinds]
    if rows:
        await connection.execute(insert(pack_entries), rows)
