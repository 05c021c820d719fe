"""Where in an upstream's block a value goes.

Owns: putting it there beside what is there already. Never imports another room.
"""

from __future__ import annotations

from typing import Any


def put(block: dict[str, Any], place: str, value: Any) -> None:
    """Put a value at a place of a block (`env`, `tools.allow`)."""
    outer, _, inner = place.partition(".")
    if place in ("env", "headers") and isinstance(value, dict):  # VS Code's null: not to be set
        value = {name: held for name, held in value.items() if held is not None}
    if inner:
        within = block.setdefault(outer, {})
        if isinstance(within, dict):  # else validation names it
            within[inner] = value
    elif isinstance(value, dict) and isinstance(block.get(outer), dict):
        block[outer] = {**value, **block[outer]}
    else:
        block[outer] = value
