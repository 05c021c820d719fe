"""Armory: an MCP gateway with tool retrieval, whose retrieval is also a Python library.

    ToolMemory         remembers tools and finds those that a query needs
    AsyncToolMemory    the same for asyncio
    Tool               one tool
    SelectedTool       one tool that was found, with its scores
    ArmoryError        base of all errors, which `armory.errors` has

The gateway itself is the command `armory`; see `armory --help`.

Owns: the public names, imported on first use, and telemetry of libraries, which is switched off.
"""

from __future__ import annotations

import os

# `typing` would be much of what is imported before `armory.cli.entry` answers to interrupts
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'armory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
