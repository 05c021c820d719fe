"""Drops indexes of the audit that nothing reads: each made writing a row more expensive."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the indexes."""
    for column in ("who", "tool"):
        op.drop_index(f"ix_audit_{column}", "audit")
