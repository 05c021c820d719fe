"""A `.env` file: variables for a configuration, one `NAME=value` a line.

Owns: its form, read and written. Never imports a room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path as File

from armory.errors import ConfigError

NAME = ".env"
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")
_COMMENTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*')\s+#.*""")
_ESCAPED = re.compile(r"\\([\\\"nrt])")
_MEANT = {"n": "\n", "r": "\r", "t": "\t"}
_WRITTEN = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def read_variables(path: File) -> dict[str, str]:
    """The variables of a file, quotes taken off; none where there is no such file, or it may not be
    read.

    Between double quotes a backslash before n, r, t, a double quote or a backslash means what it
    means to other readers.

    Raises:
        ConfigError: it is no UTF-8 text: without its variables the defaults would hold, unnoticed.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in text.split("\n"):  # other ends of lines may stand in a value
        if (match := _LINE.fullmatch(line)) is not None:
            found[match[1]] = _value(match[2])
    return found


def not_utf8(path: File, error: UnicodeDecodeError) -> ConfigError:
    """What is said of a file of text that is written otherwise."""
    what = "UTF-16" if error.object.startswith((b"\xff\xfe", b"\xfe\xff")) else error.reason
    return ConfigError(f"{path} is not UTF-8 text ({what}); save it as UTF-8")


def written(variables: Mapping[str, str]) -> str:
    """The lines of a file from which they are read again as they are; between single quotes where
    other readers would take a part of it for something else.
    """
    return "".join(f"{name}={_quoted(value)}\n" for name, value in variables.items())


def _value(text: str) -> str:
    value = text.strip()
    if (commented := _COMMENTED.fullmatch(value)) is not None:
        value = commented[1]
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return _ESCAPED.sub(lambda match: _MEANT.get(match[1], match[1]), value[1:-1])
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1]
    return text.partition(" #")[0].strip()


def _quoted(value: str) -> str:
    odd = any(sign in value for sign in '\\"$`')
    if odd and "'" not in value and value.isprintable():
        return f"'{value}'"
    return f'"{value.translate(_WRITTEN)}"'
