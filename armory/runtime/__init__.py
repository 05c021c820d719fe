"""Startup: the only room that builds objects from the configuration, in order.

Owns: the public names, imported when they are first asked for: a command that only checks a
configuration loads no gateway.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armory.runtime.opening import open_runtime
    from armory.runtime.reloading import Reloaded
    from armory.runtime.running import Runtime

__all__ = ["Reloaded", "Runtime", "open_runtime"]

_HOMES = {
    "Reloaded": "armory.runtime.reloading",
    "Runtime": "armory.runtime.running",
    "open_runtime": "armory.runtime.opening",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'armory.runtime' has no attribute {name!r}")
