"""Times in options, and as people are shown them.

Owns: spans such as `90d`, moments, and how a moment looks. Never imports a room.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_SPAN = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST = timedelta(days=100 * 365)
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999, beyond which no date can be written."""


def span_of(text: str) -> timedelta | None:
    """Seconds of `90s`, `5m`, `12h`, `7d` or `2w`, at most a hundred years; None: anything else."""
    found = _SPAN.fullmatch(text)
    if found is None:
        return None
    span = timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    return span if span <= _LONGEST else None


def moment_of(text: str) -> datetime | None:
    """An ISO 8601 date or time, UTC by default; None: anything else."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def shown_time(at_ms: int | None, never: str = "never") -> str:
    """A time for people, in UTC."""
    if at_ms is None:
        return never
    return datetime.fromtimestamp(min(at_ms, _LAST_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M")
