"""The levels of MCP's log messages, least severe first.

Owns: the table and its order. Never imports anything.
"""

from __future__ import annotations

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_RANKS = {level: rank for rank, level in enumerate(LOG_LEVELS)}


def loud_enough(level: object, wanted: str | None) -> bool:
    """Whether a message of `level` reaches a client that wants `wanted` or more.

    An unknown level does, unless the client wants no log at all (None).
    """
    if wanted is None:
        return False
    rank = _RANKS.get(level) if isinstance(level, str) else None
    return rank is None or rank >= _RANKS.get(wanted, 0)
