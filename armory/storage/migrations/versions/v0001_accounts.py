"""Accounts, packs, statistics, the query log and the change feed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create everything."""
    _accounts()
    _packs()
    _usage()
    op.create_table(
        "query_log",
        sa.Column("id", _Serial, nullable=False, autoincrement=True),
        sa.Column("query_id", sa.String(32), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("user_id", sa.String(200), nullable=True),
        sa.Column("surface", sa.String(16), nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("returned", sa.JSON, nullable=False),
        sa.Column("visible", sa.Integer, nullable=False),
        sa.Column("top_score", sa.Float, nullable=False),
        sa.Column("took_ms", sa.Float, nullable=False),
        sa.Column("degraded", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_query_log"),
    )
    op.create_index("ix_query_log_at_ms", "query_log", ["at_ms"])
    op.create_index("ix_query_log_user_id", "query_log", ["user_id"])
    op.create_table(
        "changes",
        sa.Column("id", _Serial, nullable=False, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("topic", sa.String(16), nullable=False),
        sa.Column("value", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_changes"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_changes_at_ms", "changes", ["at_ms"])


def _accounts() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("plan", sa.String(64), nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("user_id", sa.String(200), nullable=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("prefix", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger, nullable=True),
        sa.Column("revoked_at_ms", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_api_keys_user_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_api_keys_user_id", "api_keys", ["user_id"])


def _packs() -> None:
    op.create_table(
        "packs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(200), nullable=True),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_packs"),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], name="fk_packs_owner", ondelete="CASCADE"),
    )
    op.create_index("ix_packs_owner", "packs", ["owner"])
    op.create_table(
        "pack_entries",
        sa.Column("pack_id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("value", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("pack_id", "kind", "value", name="pk_pack_entries"),
        sa.ForeignKeyConstraint(
            ["pack_id"], ["packs.id"], name="fk_pack_entries_pack_id", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "installations",
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("value", sa.String(200), nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("installed_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "kind", "value", name="pk_installations"),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_installations_user_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_installations_kind_value", "installations", ["kind", "value"])
    op.create_table(
        "indexed_tools",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("server", sa.String(200), nullable=False),
        sa.Column("original_name", sa.String(200), nullable=False),
        sa.Column("definition", sa.JSON, nullable=False),
        sa.Column("category", sa.String(200), nullable=True),
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_indexed_tools"),
    )


def _usage() -> None:
    op.create_table(
        "tool_days",
        sa.Column("tool", sa.String(200), nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sa.Column("successes", sa.BigInteger, nullable=False),
        sa.Column("latency", sa.LargeBinary, nullable=False),
        sa.Column("last_used_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tool", "day", name="pk_tool_days"),
    )
    op.create_table(
        "user_tools",
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("tool", sa.String(200), nullable=False),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sa.Column("successes", sa.BigInteger, nullable=False),
        sa.Column("last_used_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "tool", name="pk_user_tools"),
    )
    op.create_table(
        "server_days",
        sa.Column("server", sa.String(200), nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("up_ms", sa.BigInteger, nullable=False),
        sa.Column("observed_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("server", "day", name="pk_server_days"),
    )
    for table in ("tool_days", "user_tools", "server_days"):
        op.create_index(f"ix_{table}_updated_at_ms", table, ["updated_at_ms"])
    op.create_table(
        "query_months",
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("month", sa.Integer, nullable=False),
        sa.Column("queries", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "month", name="pk_query_months"),
    )
