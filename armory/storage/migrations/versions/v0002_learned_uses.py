"""Queries that led to a tool: what `tool_rag.learn_from_use` remembers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "learned_uses",
        sa.Column("tool", sa.String(200), nullable=False),
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("embedder", sa.String(200), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("used_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tool", "user_id", "key", name="pk_learned_uses"),
    )
    for column in ("used_at_ms", "updated_at_ms"):
        op.create_index(f"ix_learned_uses_{column}", "learned_uses", [column])
