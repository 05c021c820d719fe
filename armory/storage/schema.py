"""The schema of a database: created where there is none, upgraded where it is older.

Owns: which revision a database has, and running migrations. Alembic is loaded only for a database
that an earlier Armory wrote. Never opens a connection.
"""

from __future__ import annotations

from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection

from armory.errors import ConfigError
from armory.storage.sqlite_reading import MIGRATIONS, newest, revisions
from armory.storage.tables import metadata


def bring_up_to_date(connection: Connection) -> tuple[str | None, str | None]:
    """Create or upgrade the schema; returns the revision before and after.

    Raises:
        ConfigError: it was written by a newer Armory.
    """
    before, head = _revision(connection), newest()
    if before is None and not _tables(connection):
        _make(connection, head)
    elif before != head:
        upgrade(connection)
    return before, head


def _tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names()) & set(metadata.tables)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _make(connection: Connection, revision: str) -> None:
    """Create all tables in their current form, and set the revision for Alembic."""
    metadata.create_all(connection)
    connection.execute(
        text(
            "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    statement = text("INSERT INTO alembic_version (version_num) VALUES (:revision)")
    connection.execute(statement, {"revision": revision})


def upgrade(connection: Connection) -> None:
    """Run the missing migrations.

    Raises:
        ConfigError: the schema is a newer Armory's.
    """
    from alembic import command  # heavy: only where there is something to do
    from alembic.config import Config

    refuse_newer(connection)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def refuse_newer(connection: Connection) -> None:
    """Check that the schema was not written by a newer Armory.

    Raises:
        ConfigError: a newer Armory wrote the schema.
    """
    before = _revision(connection)
    if before is not None and before not in revisions():
        raise ConfigError(
            f"the database has schema {before}, which this version of Armory does not know; "
            "it was written by a newer one: upgrade Armory, or use another database",
            path="storage.url",
        )
