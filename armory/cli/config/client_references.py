"""References that other clients fill in where Armory does not.

Owns: `$NAME` of Gemini CLI, which becomes `${NAME}` where a variable is meant, and what is said of
those that stay as they are. Never imports a room but `config`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from armory.config.clients.servers import Imported

_SHELL_LIKE = (".gemini", ".qwen", "gemini-cli")
"""Folders of Gemini CLI's settings, and of those made of it."""
_EXTENSION = "gemini-extension.json"
_NAMED = re.compile(r"(?<!\$)\$([A-Za-z_]\w*+)", re.ASCII)
_BARE = re.compile(r"(?:[A-Za-z]++ )?\$([A-Za-z_]\w*+)", re.ASCII)
_FILE = re.compile(r"\$?\{file:[^{}]++\}")
_OF_USERS = re.compile(r"\{\{[A-Z_][A-Z0-9_]*+\}\}")


def fill_as_gemini(file: Path, imported: Imported, variables: Collection[str]) -> None:
    """Write `$NAME` as `${NAME}` in the servers of a file of Gemini CLI: where it is the whole
    value, and where there is a variable of that name; else Gemini keeps it, too.
    """
    if file.absolute().parent.name not in _SHELL_LIKE and file.name != _EXTENSION:
        return

    def filled(text: str) -> str:
        whole = _BARE.fullmatch(text) is not None
        return _NAMED.sub(
            lambda it: f"${{{it[1]}}}" if whole or it[1] in variables else it[0], text
        )

    for key, block in imported.upstreams.items():
        imported.upstreams[key] = _through(block, filled)


def _through(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _through(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_through(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def left_as_they_are(imported: Imported) -> list[str]:
    """One line for each reference that is taken for text."""
    return [*_bare(imported), *_others(imported)]


def _bare(imported: Imported) -> Iterator[str]:
    """`$NAME`, which may be a password, too."""
    for key, block in imported.upstreams.items():
        for part in ("env", "headers"):
            held = block.get(part)
            for name, value in held.items() if isinstance(held, dict) else ():
                if isinstance(value, str) and (match := _BARE.fullmatch(value)):
                    yield (
                        f"upstreams.{key}.{part}.{name}: {value!r} is taken as it stands; write "
                        f"${{{match[1]}}} if the variable is meant"
                    )


def _others(imported: Imported) -> Iterator[str]:
    """`{file:PATH}` of opencode, `${file:PATH}` of Windsurf, `{{NAME}}` of LibreChat."""
    for key, block in imported.upstreams.items():
        text = json.dumps(block, ensure_ascii=False)
        for reference in sorted(set(_FILE.findall(text))):
            yield (
                f"upstreams.{key}: {reference} is taken as it stands; write ${{NAME}} there, and "
                "what the file holds into that variable"
            )
        for reference in sorted(set(_OF_USERS.findall(text))):
            yield (
                f"upstreams.{key}: {reference}, which that client fills in for each of its users, "
                "is taken as it stands; write ${NAME} for a variable, ${principal} for the caller"
            )
