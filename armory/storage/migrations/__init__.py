"""Alembic's environment, which upgrades databases of earlier versions."""
