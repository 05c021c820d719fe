"""The installed version.

Owns: that one fact. Never imports a room.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache  # the file that says so is looked for in every folder of `sys.path`: some milliseconds
def armory_version() -> str:
    """The installed version; "0" in a source tree that is not installed."""
    try:
        return version("armory-mcp-gateway")
    except PackageNotFoundError:
        return "0"
