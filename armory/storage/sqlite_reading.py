"""Reads an SQLite file with Python's own driver, for commands that read once and exit.

Owns: which databases can be read so, and which schema revision this Armory works with. Never
imports SQLAlchemy, which takes longer to load than such a command takes to run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from armory.storage.private import mend_database

MIGRATIONS = Path(__file__).parent / "migrations"
_SCHEME = "sqlite:///"
_TIMEOUT_S = 10.0
"""How long a read waits for a file that is locked."""


def newest() -> str:
    """The revision that this Armory works with: the number of its last migration."""
    return max(revisions())


def revisions() -> set[str]:
    """Every revision that this Armory knows."""
    return {path.name[1:5] for path in (MIGRATIONS / "versions").glob("v[0-9]*.py")}


def sqlite_rows(url: str, sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
    """The rows of a query, where the database is an SQLite file with the current schema.

    Args:
        url: as `storage.url`.
        sql: with parameters such as `:limit`.
        values: of the parameters.

    Returns:
        None where a `Database` has to be opened instead, which also says what is wrong: it is no
        SQLite file, the file is missing or cannot be read, or its schema is of another revision.
    """
    file = _file(url)
    if file is None or not file.is_file():
        return None
    try:
        mend_database(file)
        address = f"{file.absolute().as_uri()}?mode=rw"  # never makes one
        with closing(sqlite3.connect(address, timeout=_TIMEOUT_S, uri=True)) as connection:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            return connection.execute(sql, values).fetchall() if found == (newest(),) else None
    except (sqlite3.Error, OSError):
        return None


def _file(url: str) -> Path | None:
    name = url.removeprefix(_SCHEME)
    if not name or name == url or name.startswith(("file:", ":memory:")):
        return None
    return None if any(mark in name for mark in "?%") else Path(name)  # SQLAlchemy reads those
