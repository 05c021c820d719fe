"""Which schema this Armory works with.

Owns: its number. Imports no SQLAlchemy.
"""

from __future__ import annotations

from pathlib import Path

MIGRATIONS = Path(__file__).parent / "migrations"


def newest() -> str:
    """The revision that this Armory works with: the number of its last migration."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("v[0-9]*.py"))[1:5]
