"""The settings of accounts, as plain values.

Owns: `AccountSettings` and its defaults. Never imports anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """The settings of accounts.

    Attributes:
        enabled: whether packs narrow what users see, and plans count.
        default_plan: plan of users that have none.
        plans: queries a month by plan, None for without limit.
        query_log: whether queries are recorded.
        retention_days: days until a record of the query log is deleted.
        redact: regular expressions over queries.
    """

    enabled: bool = False
    default_plan: str = "free"
    plans: Mapping[str, int | None] = field(default_factory=lambda: {"free": None})
    query_log: bool = True
    retention_days: int = 30
    redact: Sequence[str] = ()
