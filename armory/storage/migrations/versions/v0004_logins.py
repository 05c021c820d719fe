"""Logins of people at upstreams, sealed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "logins",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("person", sa.String(64), nullable=False),
        sa.Column("server", sa.String(200), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("leased_until_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_logins"),
    )
    op.create_index("ix_logins_person", "logins", ["person"])
