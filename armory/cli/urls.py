"""The URL of a gateway, as it is given to `--url`.

Owns: `parts_of`, and which endpoint it means. Never imports a room.
"""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from armory.errors import ConfigError

_UNREADABLE = re.compile(r"[\s\x00-\x1f\x7f]")
_ENDPOINTS = ("mcp", "sse")


def parts_of(url: str, path: str = "") -> SplitResult:
    """The parsed URL; http by default.

    Args:
        url: as it was given.
        path: what the example has behind the port.

    Raises:
        ConfigError: nobody could be asked there.
    """
    with suppress(ValueError):  # of brackets, or a port that is none
        parts = urlsplit(url if "://" in url else f"http://{url}")
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if named and not _UNREADABLE.search(url):
            return parts
    raise ConfigError(f"{url!r} is no URL of a gateway; write e.g. http://127.0.0.1:8080{path}")


def endpoint_path(path: str) -> str:
    """The path of an MCP endpoint: one that leads to none is `server.base_path`, `/` included."""
    if any(part in _ENDPOINTS for part in path.split("/")):
        return path
    return path.rstrip("/") + "/mcp"
