"""The database: upgraded on start, the schema as the tables say, failures named."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from armory.errors import BackendError, ConfigError
from armory.storage.database import Database
from armory.storage.engine import driver_url
from armory.storage.schema import upgrade
from armory.storage.sqlite_reading import newest
from armory.storage.tables import metadata

pytestmark = pytest.mark.anyio


def _differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


def _shape(connection: Connection) -> dict[str, object]:
    """Every table with its columns, keys and indexes."""
    found = inspect(connection)
    return {
        table: [
            [(one["name"], str(one["type"]), one["nullable"]) for one in found.get_columns(table)],
            found.get_pk_constraint(table),
            sorted(found.get_foreign_keys(table), key=repr),
            sorted(found.get_unique_constraints(table), key=repr),
            sorted(found.get_indexes(table), key=repr),
        ]
        for table in found.get_table_names()
    }


async def test_a_new_database_is_as_the_migrations_make_it(tmp_path: Path) -> None:
    made, migrated = (Database(f"sqlite:///{tmp_path / name}") for name in ("made", "migrated"))
    async with migrated.write() as connection:
        await connection.run_sync(upgrade)
    await made.open()
    async with made.read() as one, migrated.read() as other:
        assert await one.run_sync(_shape) == await other.run_sync(_shape)
        for connection in (one, other):
            found = await connection.execute(text("SELECT version_num FROM alembic_version"))
            assert found.scalar_one() == newest()
    await made.close()
    await migrated.close()


async def test_an_older_database_is_upgraded(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'armory.db'}")
    await database.open()
    async with database.write() as connection:
        for later in ("learned_uses", "audit", "logins", "oauth_grants"):
            await connection.execute(text(f"DROP TABLE {later}"))
        await connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    await database.open()
    async with database.read() as connection:
        assert await connection.run_sync(_differences) == []
    await database.close()


async def test_the_tables_are_made_as_they_are_described(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'folder' / 'armory.db'}")
    await database.open()
    async with database.read() as connection:
        assert await connection.run_sync(_differences) == []
        mode = (await connection.execute(text("PRAGMA journal_mode"))).scalar_one()
        assert mode == "wal"
    await database.close()


async def test_an_empty_database_of_before_is_upgraded_with_its_content(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    first = Database(url)
    await first.open()
    async with first.write() as connection:
        await connection.execute(
            text("INSERT INTO users VALUES ('ann', 'free', 1, 1)")  # as an earlier run left it
        )
    await first.close()
    second = Database(url)
    await second.open()
    async with second.read() as connection:
        assert (await connection.execute(text("SELECT id FROM users"))).scalar_one() == "ann"
    await second.close()


async def test_a_database_of_a_newer_armory_is_left_alone(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'armory.db'}")
    await database.open()
    async with database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigError, match="written by a newer one"):
        await database.open()
    await database.close()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "armory.db").write_text("this is not a database" * 100)
    database = Database(f"sqlite:///{tmp_path / 'armory.db'}")
    with pytest.raises(BackendError, match=r"\(file is not a database\); put a saved copy"):
        await database.open()
    await database.close()


async def test_a_folder_that_cannot_be_made_is_named_with_what_says_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    database = Database(f"sqlite:///{tmp_path}/file/armory.db")
    with pytest.raises(BackendError, match=r"file/armory\.db failed .*\$ARMORY_HOME"):
        await database.open()
    await database.close()


async def test_a_server_that_is_not_there_is_named() -> None:
    database = Database("postgresql://nobody@127.0.0.1:9/none")
    with pytest.raises(BackendError, match=r"storage\.url"):
        await database.open()
    await database.close()


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://a/b", "sqlite"])
def test_urls_of_other_things_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"storage\.url"):
        driver_url(url)


def test_urls_get_their_driver() -> None:
    assert driver_url("sqlite:///x.db").drivername == "sqlite+aiosqlite"
    assert driver_url("postgresql://u:p@h/d").drivername == "postgresql+asyncpg"
    assert driver_url("postgresql+psycopg://u:p@h/d").drivername == "postgresql+asyncpg"


@pytest.mark.parametrize("host", ["127.0.0.1:9", "no.such.host:5432"])
async def test_a_database_that_is_away_is_named_without_its_password(host: str) -> None:
    database = Database(f"postgresql://armory:secret@{host}/tools")
    try:
        with pytest.raises(BackendError, match=f"{host}/tools failed") as found:
            await database.open()
    finally:
        await database.close()
    assert "secret" not in found.value.message
    assert re.search(r"ConnectionRefusedError|gaierror: \w", found.value.message)


async def test_another_process_leaves_the_log_to_those_that_write(tmp_path: Path) -> None:
    """Opened twice in one process, SQLite's file is still locked by it: else whoever ends last
    elsewhere would take the log away, and what is written afterwards would be lost."""
    file = tmp_path / "armory.db"
    url = f"sqlite:///{file}"
    writer = Database(url)
    await writer.open()
    again = Database(url)
    await again.open()
    ends = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA user_version')"
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", f"{ends}.fetchone(); c.close()", file], check=True
    )
    async with writer.write() as connection:
        await connection.execute(text("CREATE TABLE told (word TEXT)"))
        await connection.execute(text("INSERT INTO told VALUES ('kept')"))
    await again.close()
    reader = Database(url)
    async with reader.read() as connection:
        assert (await connection.execute(text("SELECT word FROM told"))).scalars().all() == ["kept"]
    await reader.close()
    await writer.close()


async def test_a_connection_that_can_only_read_is_not_kept(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'armory.db'}", pool_size=1)
    await database.open()
    async with database.read() as connection:  # as one that is made while the file is read-only
        await connection.execute(text("PRAGMA query_only=ON"))
    with pytest.raises(BackendError, match=r"readonly database.*let this user write it"):
        async with database.write() as connection:
            await connection.execute(TAKEN)
    async with database.write() as connection:
        await connection.execute(TAKEN)
    await database.close()


TAKEN = text("INSERT INTO users VALUES ('ann', 'free', 1, 0)")


@pytest.mark.parametrize(
    ("left_mb", "told"), [(0, "is full: make room there"), (500, "has room: a quota is used up")]
)
async def test_a_full_disk_is_named_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_mb: int, told: str
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=left_mb << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)  # pyright: ignore
    database = Database(f"sqlite:///{tmp_path / 'armory.db'}", pool_size=1)
    await database.open()
    async with database.read() as connection:  # what SQLite says when no page can be added
        await connection.execute(text("PRAGMA max_page_count=1"))
    many = text("INSERT INTO users SELECT value, 'free', 1, 0 FROM json_each(:ids)")
    ids = json.dumps([f"{number:0>90}" for number in range(9_000)])
    with pytest.raises(BackendError, match=f"disk is full.*, mounted at /.*, {told}"):
        async with database.write() as connection:
            await connection.execute(many, {"ids": ids})
    await database.close()


@pytest.mark.skipif(sys.platform != "linux", reason="macOS ends what writes too large a file")
async def test_a_disk_that_takes_nothing_is_named_likewise(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'armory.db'}", pool_size=1)
    await database.open()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as for a quota that is used up
    try:
        with pytest.raises(BackendError, match=r"disk I/O error.*, mounted at /.*, has room: a"):
            async with database.write() as connection:
                await connection.execute(TAKEN)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    async with database.write() as connection:
        await connection.execute(TAKEN)
    await database.close()


async def test_closing_waits_for_what_is_in_use(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await database.open()
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def read() -> int:
        async with database.read() as connection:
            reading.set()
            await go_on.wait()
            return int((await connection.execute(text("SELECT 7"))).scalar_one())

    reader = asyncio.create_task(read())
    await reading.wait()
    closing = asyncio.create_task(database.close())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    assert await reader == 7
    await closing
