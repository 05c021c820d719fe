"""What an examination finds.

Owns: `Finding` and how a check that fails by itself becomes one. Never imports a room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

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
    """A finding that nothing is wrong."""
    return Finding(check, "ok", detail)


def warning(check: str, detail: str, fix: str) -> Finding:
    """A finding of what works, and may not for long, or not as it is meant."""
    return Finding(check, "warning", detail, fix)


def failed(check: str, detail: str, fix: str) -> Finding:
    """A finding of what does not work."""
    return Finding(check, "failed", detail, fix)
