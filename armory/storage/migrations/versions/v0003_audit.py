"""Rows of the audit: what `observability.audit.to: database` writes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("tool", sa.String(200), nullable=True),
        sa.Column("record", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit"),
    )
    for column in ("at_ms", "who", "tool"):
        op.create_index(f"ix_audit_{column}", "audit", [column])
