"""Run by Alembic with an open connection that `armory.storage.database` provides.

Owns: nothing. Never opens a database by itself: the transaction around it is the caller's, so a
failed upgrade leaves the database as it was.
"""

from __future__ import annotations

from alembic import context

from armory.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
