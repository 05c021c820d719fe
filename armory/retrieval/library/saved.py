"""`tools.json`, where a memory keeps its tools.

Owns: the file's form, writing it atomically, reading it. Never imports the memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from armory.errors import ConfigError, InvalidRequest
from armory.files import replacing
from armory.retrieval.library.toolbox import Tool, shown, tool_of_json

VERSION = 1
_FILE = "tools.json"


def content_of(tools: Iterable[Tool]) -> bytes:
    """What the file holds of these tools.

    Raises:
        InvalidRequest: one has a part that is no JSON, as its metadata may.
    """
    entries = ", ".join(_entry(tool) for tool in tools)
    # ASCII: half of an emoji is no UTF-8
    return f'{{"version": {VERSION}, "tools": [{entries}]}}'.encode("ascii")


def _entry(tool: Tool) -> str:
    definition = tool.to_json()
    try:
        return json.dumps(definition)
    except (TypeError, ValueError, RecursionError) as error:
        member = next((name for name, value in definition.items() if not _is_json(value)), "a part")
        raise InvalidRequest(
            f"tool {tool.identifier!r} cannot be saved: its {member} is no JSON: {error}",
            parameter=member,
        ) from error


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def write(folder: Path, content: bytes) -> Path:
    """Write the file, or leave the old one; returns it.

    Raises:
        ConfigError: it cannot be written.
    """
    path = folder / _FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error
    return path


def read(folder: Path) -> list[Tool]:
    """The tools of the file.

    Raises:
        ConfigError: it is not there, cannot be read, or holds something else than tools.
    """
    path = folder / _FILE
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict) or cast("Any", content).get("version") != VERSION:
        raise ConfigError(f"{path} is no tool memory of version {VERSION}")
    listed: Any = cast("dict[str, Any]", content).get("tools")
    if not isinstance(listed, list):
        raise ConfigError(f"{path} is damaged: tools is {shown(listed)}, expected a list")
    tools: dict[str, Tool] = {}
    for place, entry in enumerate(cast("list[Any]", listed)):
        where = f"{path} is damaged: tools[{place}]"
        if not isinstance(entry, dict):
            raise ConfigError(f"{where} is {shown(entry)}, expected an object")
        try:
            tool = tool_of_json(cast("dict[str, Any]", entry))
        except InvalidRequest as error:
            raise ConfigError(f"{where}: {error}") from error
        if tools.setdefault(tool.identifier, tool) is not tool:
            raise ConfigError(f"{where}: the identifier {tool.identifier!r} is there twice")
    return list(tools.values())
