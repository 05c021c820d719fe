"""The findings of `armory doctor`.

Owns: `Finding` and how a check that fails by itself becomes one. Never imports a room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        check: what: `configuration`, `port`, `upstream docs`, ...
        state: how it is.
        detail: what was seen; the cause where it is not `ok`.
        fix: what to do; "" where nothing is to be done.
    """

    check: str
    state: State
    detail: str
    fix: str = ""


def ok(check: str, detail: str) -> Finding:
    """A finding without problems."""
    return Finding(check, "ok", detail)


def warning(check: str, detail: str, fix: str) -> Finding:
    """A finding about something that works, but maybe not for long, or not as intended."""
    return Finding(check, "warning", detail, fix)


def failed(check: str, detail: str, fix: str) -> Finding:
    """A finding about something that does not work."""
    return Finding(check, "failed", detail, fix)
