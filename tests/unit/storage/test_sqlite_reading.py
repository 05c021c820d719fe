"""Reading an SQLite file with its driver alone: what a listing finds, and what it leaves alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from armory.accounts.keys import ApiKeys
from armory.accounts.listings import Listing, keys_listed, users_listed
from armory.accounts.users import Users
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.sqlite_reading import sqlite_rows

pytestmark = pytest.mark.anyio


def found(url: str, listing: Listing[Any]) -> list[Any]:
    rows = sqlite_rows(url, listing.sql, listing.values)
    assert rows is not None
    return [listing.row(*row) for row in rows]


async def test_a_listing_is_the_same_with_the_driver_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    database, cache = Database(url), MemoryCache()
    feed = ChangeFeed(database, cache)
    users, keys = Users(database, feed), ApiKeys(database, cache, feed)
    await database.open()
    await users.create("alice")
    await users.create("bob")
    await users.change("bob", is_active=False)
    await keys.create("one", user="alice", scopes=("admin", "read"))
    made, _ = await keys.create("two", expires_at_ms=2**42)
    await keys.revoke(made.id)
    assert found(url, users_listed()) == await users.list()
    assert found(url, users_listed(after="alice")) == await users.list(after="alice")
    assert found(url, keys_listed()) == await keys.list()
    assert found(url, keys_listed("alice")) == await keys.list("alice")
    assert [user.is_active for user in await users.list()] == [True, False]
    await cache.aclose()
    await database.close()


async def test_what_it_cannot_read_is_for_the_database(tmp_path: Path) -> None:
    file, sql = tmp_path / "armory.db", "SELECT id FROM users"
    url = f"sqlite:///{file}"
    assert sqlite_rows(url, sql, {}) is None
    assert not file.exists()
    assert sqlite_rows("postgresql://127.0.0.1:1/armory", sql, {}) is None
    assert sqlite_rows("sqlite:///:memory:", sql, {}) is None
    assert sqlite_rows(f"{url}?timeout=1", sql, {}) is None
    file.write_bytes(b"no database, and long enough not to look like an empty one" * 99)
    assert sqlite_rows(url, sql, {}) is None
    file.unlink()
    database = Database(url)
    await database.open()
    await database.close()
    assert sqlite_rows(url, sql, {}) == []
    assert sqlite_rows(url, "SELECT id FROM nothing", {}) is None
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    assert sqlite_rows(url, sql, {}) is None
