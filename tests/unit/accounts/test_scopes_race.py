"""A change is in force when it returns, whatever older news of the same user arrives meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from armory.accounts.packs import Pack, Packs
from armory.accounts.scopes import PackScopes
from armory.accounts.users import Users
from armory.domain.principal import Principal
from armory.errors import BackendError
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database


@pytest.fixture
async def known(tmp_path: Path) -> AsyncIterator[tuple[Packs, PackScopes]]:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await database.open()
    try:
        feed = ChangeFeed(database, MemoryCache())
        users = Users(database, feed, default_plan="free")
        yield Packs(database, feed, users), PackScopes(database, feed)
    finally:
        await database.close()


@pytest.mark.anyio
async def test_news_of_an_older_change_does_not_delay_a_newer_one(
    known: tuple[Packs, PackScopes],
) -> None:
    packs, scopes = known
    await packs.install("ann", [("server", "mail"), ("server", "pager")])
    await scopes.admit(Principal("ann", "ann"))
    assert scopes.view_of("ann").servers == {"mail", "pager"}

    older: list[asyncio.Task[None]] = []
    first_is_done = asyncio.Event()
    usual = scopes._load  # pyright: ignore[reportPrivateUsage]

    async def load(user: str) -> object:
        """The first one hears of an older change meanwhile; the one for that ends later."""
        if older:
            await first_is_done.wait()
            return await usual(user)
        changed = scopes._user_changed(user)  # pyright: ignore[reportPrivateUsage]
        older.append(asyncio.create_task(changed))
        found = await usual(user)
        first_is_done.set()
        return found

    scopes._load = load  # pyright: ignore
    assert await packs.set_active("ann", "server", "pager", active=False)
    assert scopes.view_of("ann").servers == {"mail"}
    await asyncio.gather(*older)


@pytest.mark.anyio
async def test_a_user_is_admitted_with_what_changed_while_it_was_read(
    known: tuple[Packs, PackScopes],
) -> None:
    packs, scopes = known
    usual = scopes._read  # pyright: ignore[reportPrivateUsage]
    times: list[str] = []

    async def read(user: str) -> object:
        """A server is installed once the first look at the database is over."""
        found = await usual(user)
        times.append(user)
        if len(times) == 1:
            await packs.install(user, [("server", "mail")])
        return found

    scopes._read = read  # pyright: ignore
    async with asyncio.timeout(20):
        await scopes.admit(Principal("ann", "ann"))
    assert scopes.view_of("ann").servers == {"mail"}


@pytest.mark.anyio
async def test_a_user_is_admitted_with_what_became_of_a_pack_while_it_was_read(
    known: tuple[Packs, PackScopes],
) -> None:
    packs, scopes = known
    await packs.create(Pack("tools", None, "Tools", servers=("mail", "pager")))
    await packs.install("ann", [("pack", "tools")])
    usual = scopes._read  # pyright: ignore[reportPrivateUsage]
    times: list[str] = []

    async def read(user: str) -> object:
        """The pack loses a server once the first look at the database is over."""
        found = await usual(user)
        times.append(user)
        if len(times) == 1:
            await packs.replace(Pack("tools", None, "Tools", servers=("mail",)), user=None)
        return found

    scopes._read = read  # pyright: ignore
    async with asyncio.timeout(20):
        await scopes.admit(Principal("ann", "ann"))
    assert scopes.view_of("ann").servers == {"mail"}


@pytest.mark.anyio
async def test_what_was_read_before_does_not_replace_what_was_read_after(
    known: tuple[Packs, PackScopes],
) -> None:
    """The same change comes over the line and by a poll; both loads are under way when another
    process makes the next change.
    """
    packs, scopes = known
    await packs.install("ann", [("server", "mail"), ("server", "pager")])
    await scopes.admit(Principal("ann", "ann"))
    told: list[set[str]] = []
    scopes.observe(lambda user: told.append(set(scopes.view_of(user).servers)))
    usual = scopes._read  # pyright: ignore[reportPrivateUsage]
    times: list[str] = []
    has_read, changed, replaced = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def read(user: str) -> object:
        """The first one begins after the change; the second, before it, and it ends last."""
        times.append(user)
        number = len(times)
        if number == 1:
            await changed.wait()
        found = await usual(user)
        if number == 2:
            has_read.set()
            await replaced.wait()
        return found

    scopes._read = read  # pyright: ignore
    by_line = asyncio.create_task(scopes._user_changed("ann"))  # pyright: ignore[reportPrivateUsage]
    await asyncio.sleep(0)
    by_poll = asyncio.create_task(scopes._user_changed("ann"))  # pyright: ignore[reportPrivateUsage]
    async with asyncio.timeout(20):
        await has_read.wait()
        database = scopes._database  # pyright: ignore[reportPrivateUsage]
        feed = ChangeFeed(database, MemoryCache())
        elsewhere = Packs(database, feed, Users(database, feed, default_plan="free"))
        assert await elsewhere.set_active("ann", "server", "pager", active=False)
        changed.set()
        await by_line
        replaced.set()
        await by_poll
    assert scopes.view_of("ann").servers == {"mail"}
    assert told == [{"mail"}]


@pytest.mark.anyio
async def test_what_users_had_active_before_is_not_held(
    known: tuple[Packs, PackScopes],
) -> None:
    packs, scopes = known
    await scopes.admit(Principal("ann", "ann"))
    for number in range(30):
        await packs.install("ann", [("server", f"s{number}")])
        assert f"s{number}" in scopes.view_of("ann").servers
    assert len(scopes._same) < 5  # pyright: ignore[reportPrivateUsage]


@pytest.mark.anyio
async def test_users_that_were_deleted_are_not_held(known: tuple[Packs, PackScopes]) -> None:
    packs, scopes = known
    users = packs._users  # pyright: ignore[reportPrivateUsage]
    for number in range(20):
        user = f"user{number}"
        await users.create(user)
        await packs.install(user, [("server", "mail")])
        await scopes.admit(Principal(user, user))
        assert scopes.view_of(user).servers == {"mail"}
        await users.delete(user)
        assert not scopes.view_of(user).servers
    assert not scopes._loaded  # pyright: ignore[reportPrivateUsage]


@pytest.mark.anyio
async def test_a_change_that_could_not_be_read_is_told_at_once_and_when_it_was(
    known: tuple[Packs, PackScopes],
) -> None:
    packs, scopes = known
    await packs.install("ann", [("server", "mail"), ("server", "pager")])
    await scopes.admit(Principal("ann", "ann"))
    told: list[str] = []
    scopes.observe(told.append)
    usual = scopes._read  # pyright: ignore[reportPrivateUsage]

    async def read(user: str) -> object:
        raise BackendError("the database is away")

    scopes._read = read  # pyright: ignore
    assert await packs.set_active("ann", "server", "pager", active=False)
    assert told == ["ann"]
    scopes._read = usual  # pyright: ignore
    await scopes.admit(Principal("ann", "ann"))
    assert told == ["ann", "ann"]
    assert scopes.view_of("ann").servers == {"mail"}
    await scopes._user_changed("ann")  # pyright: ignore[reportPrivateUsage]
    assert told == ["ann", "ann"]
