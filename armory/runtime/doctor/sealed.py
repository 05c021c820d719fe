"""Checks that stored logins and grants can be decrypted with the configured keys.

Owns: that check. Opens them to see that they can be, and shows nothing of them.
"""

from __future__ import annotations

from sqlalchemy import select

from armory.config import Loaded
from armory.errors import ArmoryError
from armory.runtime.blocks.encryption import has_key_file, seals
from armory.runtime.doctor.findings import Finding, ok, warning
from armory.storage.database import Database
from armory.storage.tables import logins, oauth_grants

_FIX = (
    "name the key that they were sealed with as the last one of security.encryption_key, or put "
    "the saved key file back; else these people log in again"
)


async def sealed(loaded: Loaded) -> list[Finding]:
    """The number of logins and grants by key; nothing where none are stored, or the database does
    not answer.
    """
    if not (loaded.config.security.encryption_key or has_key_file(loaded)):
        return []
    database: Database | None = None
    try:
        seal = seals(loaded)
        database = Database(loaded.config.storage.url)
        if database.file is not None and not database.file.exists():
            return []
        alive = oauth_grants.c.expires_at_ms > database.now_ms
        async with database.read() as connection:
            rows = (await connection.execute(select(logins.c.id, logins.c.sealed))).all()
            asked = select(oauth_grants.c.id, oauth_grants.c.sealed).where(alive)
            rows = [*rows, *(await connection.execute(asked)).all()]
    except ArmoryError:  # another finding says why
        return []
    finally:
        if database is not None:
            await database.close()
    found = [(row.sealed, row.id) for row in rows if row.sealed]
    lost = sum(seal.open(*one) is None for one in found)
    older = sum(not seal.is_newest(*one) for one in found) - lost
    if lost:
        return [warning("key", f"no key opens {lost:,} of {len(found):,} logins", _FIX)]
    if older:
        detail = f"{older:,} of {len(found):,} logins need an older key: keep it in the list"
        return [ok("key", f"{detail}; each is sealed with the first one when it is next used")]
    return [ok("key", f"the first one opens all {len(found):,} logins")] if found else []
