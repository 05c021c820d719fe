"""JSON values, walked: what scanners of their bytes must agree with."""

from __future__ import annotations

from typing import Any


def depth(value: Any) -> int:
    """How many arrays and objects are inside one another at the deepest place."""
    if isinstance(value, dict):
        value = list(value.values())  # pyright: ignore[reportUnknownArgumentType]
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0  # pyright: ignore[reportUnknownArgumentType]
