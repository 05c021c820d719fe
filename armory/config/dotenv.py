"""A `.env` file: variables for a configuration, one `NAME=value` a line.

Owns: reading it. Never imports a room.
"""

from __future__ import annotations

import re
from pathlib import Path as File

NAME = ".env"
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")


def read_variables(path: File) -> dict[str, str]:
    """The variables of a file, quotes taken off; none where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, str] = {}
    for line in text.splitlines():
        if (match := _LINE.fullmatch(line)) is not None:
            value = match[2].strip()
            if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            else:
                value = value.partition(" #")[0].rstrip()
            found[match[1]] = value
    return found
