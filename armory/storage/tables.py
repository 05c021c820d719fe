"""All tables, as SQLAlchemy Core definitions.

Owns: names and columns of everything that is kept. Never imports a driver or another room. A
change here needs a migration beside it in `migrations/versions` (a test compares the two).

Times are milliseconds since 1970 (UTC); days are numbers like 20260719, months like 202607.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_Serial = BigInteger().with_variant(Integer, "sqlite")
NAME_CHARS = 200

users = Table(
    "users",
    metadata,
    Column("id", String(NAME_CHARS), primary_key=True),
    Column("plan", String(64), nullable=False),
    Column("is_active", Boolean, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=True, index=True),
    Column("name", String(NAME_CHARS), nullable=False),
    Column("prefix", String(16), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("scopes", JSON, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=True),
    Column("revoked_at_ms", BigInteger, nullable=True),
)

packs = Table(
    "packs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("owner", ForeignKey("users.id", ondelete="CASCADE"), nullable=True, index=True),
    Column("title", String(NAME_CHARS), nullable=False),
    Column("description", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
)

pack_entries = Table(
    "pack_entries",
    metadata,
    Column("pack_id", ForeignKey("packs.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(8), primary_key=True),  # server | tool
    Column("value", String(NAME_CHARS), primary_key=True),
)

installations = Table(
    "installations",
    metadata,
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(8), primary_key=True),  # pack | server | tool
    Column("value", String(NAME_CHARS), primary_key=True),
    Column("is_active", Boolean, nullable=False),
    Column("installed_at_ms", BigInteger, nullable=False),
    Index(None, "kind", "value"),
)

indexed_tools = Table(
    "indexed_tools",
    metadata,
    Column("name", String(NAME_CHARS), primary_key=True),
    Column("server", String(NAME_CHARS), nullable=False),
    Column("original_name", String(NAME_CHARS), nullable=False),
    Column("definition", JSON, nullable=False),
    Column("category", String(NAME_CHARS), nullable=True),
    Column("tags", JSON, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
)

tool_days = Table(
    "tool_days",
    metadata,
    Column("tool", String(NAME_CHARS), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("uses", BigInteger, nullable=False),
    Column("successes", BigInteger, nullable=False),
    Column("latency", LargeBinary, nullable=False),
    Column("last_used_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False, index=True),
)

user_tools = Table(
    "user_tools",
    metadata,
    Column("user_id", String(NAME_CHARS), primary_key=True),
    Column("tool", String(NAME_CHARS), primary_key=True),
    Column("uses", BigInteger, nullable=False),
    Column("successes", BigInteger, nullable=False),
    Column("last_used_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False, index=True),
)

server_days = Table(
    "server_days",
    metadata,
    Column("server", String(NAME_CHARS), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("up_ms", BigInteger, nullable=False),
    Column("observed_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False, index=True),
)

query_months = Table(
    "query_months",
    metadata,
    Column("user_id", String(NAME_CHARS), primary_key=True),
    Column("month", Integer, primary_key=True),
    Column("queries", BigInteger, nullable=False),
)

query_log = Table(
    "query_log",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("query_id", String(32), nullable=False),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("user_id", String(NAME_CHARS), nullable=True, index=True),
    Column("surface", String(16), nullable=False),
    Column("query", Text, nullable=False),
    Column("returned", JSON, nullable=False),
    Column("visible", Integer, nullable=False),
    Column("top_score", Float, nullable=False),
    Column("took_ms", Float, nullable=False),
    Column("degraded", Text, nullable=True),
)

learned_uses = Table(
    "learned_uses",
    metadata,
    Column("tool", String(NAME_CHARS), primary_key=True),
    Column("user_id", String(NAME_CHARS), primary_key=True),
    Column("key", String(64), primary_key=True),  # hash of the query
    Column("query", Text, nullable=False),
    Column("embedder", String(NAME_CHARS), nullable=False),
    Column("vector", LargeBinary, nullable=False),  # float16, of that embedder
    Column("used_at_ms", BigInteger, nullable=False, index=True),
    Column("updated_at_ms", BigInteger, nullable=False, index=True),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("who", String(NAME_CHARS), nullable=False),
    Column("tool", String(NAME_CHARS), nullable=True),
    Column("record", Text, nullable=False),  # one line of canonical JSON, its hash included
)

logins = Table(
    "logins",
    metadata,
    Column("id", String(64), primary_key=True),  # hash of person and server
    Column("person", String(64), nullable=False, index=True),  # hash of who it is
    Column("server", String(NAME_CHARS), nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("leased_until_ms", BigInteger, nullable=False),  # somebody refreshes it
    Column("updated_at_ms", BigInteger, nullable=False),
)

oauth_grants = Table(
    "oauth_grants",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("step", Integer, nullable=False),  # 0: taken, 1: a code, from 2 on a refresh token
    Column("sealed", LargeBinary, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False, index=True),
)

changes = Table(
    "changes",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("topic", String(16), nullable=False),
    Column("value", String(NAME_CHARS), nullable=False),
    sqlite_autoincrement=True,
)
