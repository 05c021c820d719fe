"""The change feed: tells every process what changed in the database, so that caches follow.

Owns: the names that rooms use. Never imports what listens to it.
"""

from armory.storage.changes.feed import (
    CHANNEL,
    LEARNED_USES,
    POLL_S,
    QUIET_S,
    ChangeFeed,
    Transaction,
)

__all__ = ["CHANNEL", "LEARNED_USES", "POLL_S", "QUIET_S", "ChangeFeed", "Transaction"]
