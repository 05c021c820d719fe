"""Alembic's environment: how a database of any earlier version becomes today's."""
