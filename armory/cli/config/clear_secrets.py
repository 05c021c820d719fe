"""Secrets that a client's file holds in clear.

Owns: finding them in imported upstreams, and moving them into a `.env`. Never imports a room but
`observability` and `config`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from armory.config.dotenv import read_variables
from armory.errors import ConfigError
from armory.observability.redaction import names_secret

_SCHEME = re.compile(r"(?:Bearer|Basic|Token) ", re.IGNORECASE)
_OTHER = re.compile(r"[^A-Z0-9]+")


def clear_secrets(upstreams: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(upstream, block, name) of each value that is a secret and no reference to a variable."""
    for key, block in upstreams.items():
        for part in ("env", "headers", "auth"):
            held: Any = block.get(part) if isinstance(block, dict) else None
            if not isinstance(held, dict):
                continue
            for name, value in cast("dict[str, Any]", held).items():
                if isinstance(value, str) and value and "${" not in value and names_secret(name):
                    yield key, part, name


def moved(upstreams: dict[str, Any], env_file: Path) -> dict[str, str]:
    """Put `${VAR}` in the place of each secret; what the variables are.

    Args:
        upstreams: changed in place.
        env_file: where they will be kept; names that it has for another value are not used again.
    """
    known = read_variables(env_file)
    found: dict[str, str] = {}
    for key, part, name in list(clear_secrets(upstreams)):
        held = upstreams[key][part]
        scheme = _SCHEME.match(held[name])
        head = scheme[0] if scheme else ""
        value = held[name][len(head) :]
        plain = _OTHER.sub("_", (name if part == "env" else f"{key}_{name}").upper()).strip("_")
        variable = plain
        if {**known, **found}.get(plain, value) != value:
            variable = _OTHER.sub("_", f"{key}_{plain}".upper())
        found[variable] = value
        held[name] = f"{head}${{{variable}}}"
    return {name: value for name, value in found.items() if known.get(name) != value}


def write_private(path: Path, text: str, *, append: bool = False) -> None:
    """Write a file that only its owner may read, or add lines to it.

    Raises:
        ConfigError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    try:
        before = path.read_bytes() if append and path.exists() else b""
        if before and not before.endswith(b"\n"):
            text = f"\n{text}"
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
