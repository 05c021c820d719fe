"""People's logins in every kind of database: kept, replaced, and refreshed by one process alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from armory.security.sealing import Seal
from armory.storage.logins import StoredLogin
from armory.storage.tables import logins

pytestmark = pytest.mark.anyio


class Open:
    """Encryption that leaves everything as it is."""

    def seal(self, data: bytes, purpose: str) -> bytes:
        del purpose
        return data

    def open(self, sealed: bytes, purpose: str) -> bytes | None:
        del purpose
        return sealed

    def is_newest(self, sealed: bytes, purpose: str) -> bool:
        del sealed, purpose
        return True


async def test_a_login_that_is_only_read_is_sealed_with_a_new_key_all_the_same(
    processes: Any,
) -> None:
    process = await processes.open()
    old, new = "a-secret-of-some-length", "another-secret-of-some-length"

    def login(*keys: str) -> StoredLogin:
        return StoredLogin(process.database, process.feed, Seal(keys), "user:ann", "docs")

    await login(old).save(b"a login")
    assert await login(new).load() is None
    assert await login(new, old).load() == b"a login"
    assert await login(new).load() == b"a login"


async def test_a_login_is_replaced_only_where_there_is_one_and_its_lease_ends(
    processes: Any,
) -> None:
    process = await processes.open()
    login = StoredLogin(process.database, process.feed, Open(), "ann", "docs")
    first = b"first".__eq__
    assert not await login.replace(b"refreshed", first)
    assert await login.load() is None
    await login.save(b"first")
    assert await login.lease()
    assert not await login.lease()
    assert await login.replace(b"refreshed", first)
    assert await login.load() == b"refreshed"
    assert await login.lease()
    await login.save(b"another")
    assert not await login.replace(b"refreshed", first)
    assert await login.load() == b"another"
    await login.save(None)
    assert not await login.replace(b"refreshed", first)
    assert await login.load() is None


async def test_a_lease_is_ended_by_nobody_else(processes: Any) -> None:
    process = await processes.open()
    mine, another, third = (
        StoredLogin(process.database, process.feed, Open(), "ann", "docs") for _ in range(3)
    )
    await mine.save(b"a login")
    assert await mine.lease()
    assert not await another.lease()
    await another.release()  # it refreshed all the same, having waited in vain
    assert not await third.lease()
    await mine.release()
    assert await third.lease()


async def test_a_lease_from_before_the_clock_was_set_back_holds_nobody_up(processes: Any) -> None:
    process = await processes.open()
    login = StoredLogin(process.database, process.feed, Open(), "ann", "docs")
    await login.save(b"a login")
    ahead = process.database.now_ms + 3_600_000
    async with process.database.write() as connection:
        await connection.execute(update(logins).values(leased_until_ms=ahead))
    assert await login.lease()


async def test_two_logins_of_one_person_at_once_are_one(processes: Any) -> None:
    process = await processes.open()
    seal = Seal(["a-secret-of-some-length"])
    logins = [
        StoredLogin(process.database, process.feed, seal, "user:ann", "docs") for _ in range(4)
    ]
    await asyncio.gather(*(one.save(b"a login") for one in logins))
    assert await logins[0].load() == b"a login"
