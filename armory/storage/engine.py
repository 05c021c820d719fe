"""Creates the SQLAlchemy engine: its URL, its driver, SQLite's settings.

Owns: what `storage.url` may say, the drivers' settings, and the write-ahead log. Never runs a
statement of anybody else's.
"""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from weakref import WeakSet

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError

from armory.errors import ConfigError

_BUSY_TIMEOUT_MS = 10_000
_SWITCHES = 20
"""Attempts to switch to the write-ahead log; a failed one has waited for another process."""
_POSTGRES_TIMEOUT_S = 10.0
_PREPARED = "prepared_statement_cache_size"
"""A parameter of a URL. With 0 no prepared statement outlasts a transaction, for poolers that give
each transaction another connection (pgbouncer)."""
READ_ONLY = "25006"
"""The SQLSTATE of Postgres about a write where only reads are allowed."""
_CONNECT = "connect_timeout"
"""A parameter of a URL that other clients know: seconds, 0 for the default. The driver takes it as
an argument."""
_OF_SQLALCHEMY = ("host", "port", "ssl", _PREPARED)
"""Parameters of a URL that SQLAlchemy reads itself or hands on as they are."""


def driver_url(url: str) -> URL:
    """The SQLAlchemy URL, with its async driver, for a `storage.url`.

    Raises:
        ConfigError: not a URL, not SQLite or Postgres, or the Postgres extra is absent.
    """
    path = "storage.url"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigError(
            "not a database URL; expected sqlite:///path/to/armory.db or "
            "postgresql://user:password@host/database",
            path=path,
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return parsed.set(drivername="sqlite+aiosqlite")
    if backend in {"postgresql", "postgres"}:
        if importlib.util.find_spec("asyncpg") is None:
            raise ConfigError(
                'Postgres needs an extra: pip install "armory-mcp-gateway[postgres]"', path=path
            )
        return parsed.set(drivername="postgresql+asyncpg")
    raise ConfigError(f"{backend!r} is not supported; expected sqlite or postgresql", path=path)


def sqlite_file(url: URL) -> Path | None:
    """The file of an SQLite database; None for one in memory and for other databases."""
    name = url.database if url.get_backend_name() == "sqlite" else None
    if not name or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name)


def without_credentials(url: URL) -> str:
    """The URL without credentials."""
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    host = f"{url.host or 'the local socket'}:{url.port}" if url.port else url.host or "localhost"
    if named := url.query.get("host"):  # a socket, or several servers
        host = named if isinstance(named, str) else ",".join(named)
    return f"{host}/{url.database or ''}"


def make_engine(url: URL, pool_size: int) -> Engine:
    """A new engine; it does not connect yet.

    Args:
        url: of `driver_url`.
        pool_size: connections kept; at most twice as many are opened under load.
    """
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, pool_size=pool_size, max_overflow=pool_size)
        event.listen(engine, "connect", prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "handle_error", _drop_read_only)
        return engine
    arguments: dict[str, Any] = dict.fromkeys(("timeout", "command_timeout"), _POSTGRES_TIMEOUT_S)
    own = {name: value for name, value in url.query.items() if name in _OF_SQLALCHEMY}
    rest = {name: value for name, value in url.query.items() if name not in own}
    if str(rest.get(_CONNECT)).isdecimal():
        arguments["timeout"] = float(str(rest.pop(_CONNECT))) or _POSTGRES_TIMEOUT_S
    if rest:
        # `sslmode` and the like, which the driver reads in a URL alone
        arguments["dsn"] = f"postgresql://?{urlencode(rest, doseq=True)}"
    if own.get(_PREPARED) == "0":
        arguments |= _within_transactions()
    engine = create_engine(
        url.set(query=own),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=_POSTGRES_TIMEOUT_S,
        pool_pre_ping=True,
        connect_args=arguments,
    )
    event.listen(engine, "handle_error", _leave_standby)
    return engine


def network_connections(engine: Engine) -> WeakSet[Any]:
    """The set of driver connections that an engine opens from now on; empty for SQLite."""
    found: WeakSet[Any] = WeakSet()
    if engine.dialect.name == "postgresql":

        def connected(connection: Any, _record: Any) -> None:
            found.add(connection.driver_connection)

        event.listen(engine, "connect", connected)
    return found


def _within_transactions() -> dict[str, Any]:
    """Connection arguments for poolers in transaction mode: nothing outlives a transaction."""
    from asyncpg import Connection as Driver  # only where Postgres is spoken

    class Within(Driver):
        async def set_type_codec(self, *args: Any, **kwargs: Any) -> None:
            # of a new connection SQLAlchemy asks this outside of any, and it takes several steps
            async with self.transaction():
                await super().set_type_codec(*args, **kwargs)

    # statements have no names, as `str` gives none
    return {
        "connection_class": Within,
        "statement_cache_size": 0,
        "prepared_statement_name_func": str,
    }


def prepare_sqlite(connection: Any, _record: Any = None) -> None:
    """Configure a new connection: transactions, busy timeout, write-ahead log."""
    connection.isolation_level = None  # the driver must not begin transactions by itself
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
    _write_ahead(cursor)
    for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _write_ahead(cursor: Any) -> None:
    """Switch the file to a write-ahead log, also where another process is doing the same.

    SQLite does not wait for that lock, whatever the busy timeout; for a write lock it does.
    """
    for left in reversed(range(_SWITCHES)):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if not left:
                raise
            cursor.execute("BEGIN IMMEDIATE")
            cursor.execute("COMMIT")
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later would fail at once when another one writes
    # in between, whatever the busy timeout: writers take their place at the beginning.
    writes = connection.get_execution_options().get("armory_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _leave_standby(context: ExceptionContext) -> None:
    """Drop connections to a server that takes no writes: after a failover it is a standby, which
    closes none of its connections, while the address leads to the new primary. Its data is stale,
    too.
    """
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


def _drop_read_only(context: ExceptionContext) -> None:
    """Drop a read-only connection: SQLite opens one while the file is not writable, and it stays so
    when the file is writable again. Other connections of the pool may be fine.
    """
    code = getattr(context.original_exception, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = False
