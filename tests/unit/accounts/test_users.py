"""A user that is deleted takes along what was its own, wherever else that is in use."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, select

from armory.accounts.packs import Pack, Packs
from armory.accounts.scopes import PackScopes
from armory.accounts.users import Users
from armory.domain.principal import Principal
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.tables import query_months


@pytest.mark.anyio
async def test_packs_of_a_deleted_user_are_gone_for_others_too(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await database.open()
    try:
        feed = ChangeFeed(database, MemoryCache())
        users = Users(database, feed)
        packs, scopes = Packs(database, feed, users), PackScopes(database, feed)
        await packs.create(Pack("hers", "ann", "Of Ann", servers=("mail",)))
        await packs.install("bob", [("pack", "hers"), ("server", "pager")], sees_all=True)
        await scopes.admit(Principal("bob", "bob"))
        assert scopes.view_of("bob").servers == {"mail", "pager"}
        assert await users.delete("ann")
        assert scopes.view_of("bob").servers == {"pager"}
        await packs.create(Pack("hers", "eve", "Of Eve", servers=("logs",)))
        assert scopes.view_of("bob").servers == {"pager"}
        assert [one.value for one in await packs.installed("bob")] == ["pager"]
    finally:
        await database.close()


@pytest.mark.anyio
async def test_what_was_counted_of_a_deleted_user_is_not_the_next_ones(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await database.open()
    try:
        users = Users(database, ChangeFeed(database, MemoryCache()))
        for user in ("ann", "bob"):
            await users.create(user)
            async with database.write() as connection:
                month = {"user_id": user, "month": 202601, "queries": 7}
                await connection.execute(insert(query_months).values(month))
        assert await users.delete("ann")
        async with database.read() as connection:
            left = (await connection.execute(select(query_months.c.user_id))).scalars().all()
        assert left == ["bob"]
    finally:
        await database.close()
