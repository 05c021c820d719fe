"""The settings of the audit, as plain values.

Owns: `AuditSettings` and its defaults. Never imports anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Arguments = Literal["off", "hash", "full"]
Results = Literal["off", "hash"]


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The settings of the audit.

    Attributes:
        to: `stdout`, `database` or the path of a file; None: nowhere.
        arguments: what is kept of a call's arguments: nothing, their SHA-256, or all of them.
        results: what is kept of what a call was answered: nothing, or its SHA-256.
        retention_days: rows of the database are deleted after so many days.
        waiting: records that may wait to be written; more are dropped, counted and told.
        waiting_chars: characters of arguments that may wait, likewise.
    """

    to: str | None = None
    arguments: Arguments = "off"
    results: Results = "off"
    retention_days: int = 365
    waiting: int = 100_000
    waiting_chars: int = 64 * 1024 * 1024
