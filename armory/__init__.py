"""Armory: one URL in front of many MCP servers; `tools/list` answers the query.

Owns: the public names, imported when they are first used. Never imports a room itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armory.config import load_file, load_text
    from armory.domain.query import Query
    from armory.errors import ArmoryError
    from armory.runtime import Runtime, open_runtime

__all__ = ["ArmoryError", "Query", "Runtime", "load_file", "load_text", "open_runtime"]

_HOMES = {
    "ArmoryError": "armory.errors",
    "Query": "armory.domain.query",
    "Runtime": "armory.runtime",
    "load_file": "armory.config",
    "load_text": "armory.config",
    "open_runtime": "armory.runtime",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'armory' has no attribute {name!r}")
