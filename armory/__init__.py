"""Armory: one URL in front of many MCP servers, and tool retrieval as a library.

Owns: the public names, imported when they are first asked for, and that no library that is loaded
afterwards reports to its maker.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armory.errors import ArmoryError
    from armory.retrieval.library.memory import AsyncToolMemory
    from armory.retrieval.library.memory_sync import ToolMemory
    from armory.retrieval.library.toolbox import SelectedTool, Tool

__all__ = ["ArmoryError", "AsyncToolMemory", "SelectedTool", "Tool", "ToolMemory"]

_HOMES = {
    "ArmoryError": "armory.errors",
    "AsyncToolMemory": "armory.retrieval.library.memory",
    "SelectedTool": "armory.retrieval.library.toolbox",
    "Tool": "armory.retrieval.library.toolbox",
    "ToolMemory": "armory.retrieval.library.memory_sync",
}


_QUIET = ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK")
os.environ.update({name: "1" for name in _QUIET if name not in os.environ})
# onnxruntime reads its variable while it is imported: a call of its API comes too late


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'armory' has no attribute {name!r}")
