"""Who is switched off is known at gateways that look no accounts up, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from armory.accounts.switched_off import SwitchedOff
from armory.accounts.users import Users
from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed, BackendError
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database

pytestmark = pytest.mark.anyio
ANN, BOB, NOBODY = Principal("1", "ann"), Principal("2", "bob"), Principal("3")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


async def test_who_was_switched_off_before_the_start_or_elsewhere_is_refused(
    database: Database,
) -> None:
    elsewhere = Users(database, ChangeFeed(database, MemoryCache()))
    for name in ("ann", "bob"):
        await elsewhere.create(name)
    await elsewhere.change("ann", is_active=False)
    feed = ChangeFeed(database, MemoryCache())
    here = SwitchedOff(database, feed)
    await here.load()
    await feed.poll()
    with pytest.raises(AuthenticationFailed, match="switched off"):
        await here.admit(ANN)
    for one in (BOB, NOBODY):
        await here.admit(one)
    await elsewhere.change("ann", is_active=True)
    await elsewhere.change("bob", is_active=False)
    await feed.poll()
    await here.admit(ANN)
    with pytest.raises(AuthenticationFailed, match="switched off"):
        await here.admit(BOB)
    await elsewhere.delete("bob")
    await feed.poll()
    await here.admit(BOB)  # the next one of that name


async def test_a_change_that_could_not_be_read_is_read_before_the_user_is_let_in(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ChangeFeed(database, MemoryCache())
    users, here = Users(database, feed), SwitchedOff(database, feed)
    await users.create("ann")
    with monkeypatch.context() as away:
        away.setattr(here, "_read", _away)
        await users.change("ann", is_active=False)
        with pytest.raises(BackendError):
            await here.admit(ANN)
        await here.admit(BOB)  # nothing is asked
    with pytest.raises(AuthenticationFailed, match="switched off"):
        await here.admit(ANN)


async def _away(_user: str) -> None:
    raise BackendError("the database is away")
