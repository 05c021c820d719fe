"""The installed version.

Owns: that one fact. Never imports a room.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def armory_version() -> str:
    """The installed version; "0" in a source tree that is not installed."""
    try:
        return version("armory-mcp-gateway")
    except PackageNotFoundError:
        return "0"
