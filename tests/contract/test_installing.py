"""Packs that are deleted at one replica while they are installed at another."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import insert, text

from armory.accounts.packs import Pack
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.database import Database
from armory.storage.tables import installations
from armory.testing.waiting import eventually

pytestmark = pytest.mark.anyio
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
_SEVERAL_WRITERS = pytest.param("redis+postgres", marks=[pytest.mark.redis, pytest.mark.postgres])
"""SQLite has one writer at a time."""


class _RolledBack(Exception):
    """A transaction is not wanted any more."""


@pytest.mark.parametrize("stores", [_SEVERAL_WRITERS], indirect=True)
async def test_a_pack_that_is_deleted_meanwhile_stays_installed_for_nobody(stores: Any) -> None:
    database = Database(stores.url)
    accounts = Accounts(database, stores.cache(), AccountSettings(enabled=True))
    packs = accounts.packs
    await accounts.open()
    try:
        await accounts.users.create("ann")
        await packs.create(Pack("tools", None, "Tools", tools=("a__b",)))

        async def waiting() -> int:
            async with database.read() as connection:
                return (await connection.execute(text(_WAITING))).scalar_one()

        async def installs() -> bool:
            return await waiting() == 1

        installing, deleting = asyncio.Future[Any](), asyncio.Future[Any]()

        async def deletes() -> bool:
            return deleting.done() or await waiting() == 2

        row = {"user_id": "ann", "kind": "pack", "value": "tools", "installed_at_ms": 0}
        with suppress(_RolledBack):
            async with database.write() as connection:  # for which installing waits, half-way
                await connection.execute(insert(installations).values(is_active=True, **row))
                installing = asyncio.ensure_future(packs.install("ann", [("pack", "tools")]))
                await eventually(installs, 60.0)
                deleting = asyncio.ensure_future(packs.delete("tools", user=None))
                await eventually(deletes, 60.0)
                raise _RolledBack
        await asyncio.gather(installing, deleting)
        assert await packs.installed("ann") == []
    finally:
        await accounts.close()
