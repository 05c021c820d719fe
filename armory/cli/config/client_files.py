"""The files in which MCP clients keep their servers.

Owns: reading them and finding the maps. Claude Desktop and Code, Cursor, VS Code, Gemini CLI and
others (JSON, comments allowed), Codex (TOML), opencode, Zed. Never imports a room but `config`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from armory.domain.naming import slug
from armory.errors import ConfigError

_STRING_OR_COMMENT = re.compile(
    r'("(?:\\.|[^"\\]++)*+(?:"|\\?\Z))|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)', re.DOTALL
)
_STRING_OR_COMMA = re.compile(r'("(?:\\.|[^"\\]++)*+(?:"|\\?\Z))|,(?=\s*+[}\]])', re.DOTALL)
_PLACES = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("mcp", "mcpServers"),
    ("mcp_servers",),
    ("context_servers",),
    ("mcp",),
)
Servers = dict[str, Any]


def servers_of(file: Path) -> Servers:
    """Every server of a client's file, by the name that it has there.

    Raises:
        ConfigError: the file cannot be read, or has none.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is no text in UTF-8: {error}") from None
    data = _toml(file, text) if file.suffix == ".toml" else _json(file, text)
    found: Servers = {}
    maps: list[tuple[Servers | None, str]] = [(_map_in(data), "")]
    projects = data.get("projects")
    for folder, project in _entries(projects):  # Claude Code keeps servers by project
        maps.append((_map_in(project), slug(Path(folder).name)))
    for servers, project in maps:
        for name, entry in (servers or {}).items():
            if found.get(name, entry) != entry:
                found[f"{name}-{project}"] = entry
            else:
                found.setdefault(name, entry)
    if all(servers is None for servers, _ in maps):
        raise ConfigError(
            f"{file} has no servers; expected a map 'mcpServers' (Claude, Cursor and others), "
            "'servers' (VS Code), 'mcp_servers' (Codex), 'mcp' (opencode) or "
            "'context_servers' (Zed)"
        )
    return found


def _entries(value: Any) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(value, dict):
        return []
    known = cast("dict[str, Any]", value)
    return [(name, inner) for name, inner in known.items() if isinstance(inner, dict)]


def _map_in(data: Mapping[str, Any]) -> Servers | None:
    for place in _PLACES:
        found: Any = data
        for part in place:
            found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
        if isinstance(found, dict):
            return cast("Servers", found)
    return None


def _json(file: Path, text: str) -> dict[str, Any]:
    try:
        data = json.loads(without_comments(text))
    except RecursionError:
        raise ConfigError(f"{file} is nested too deep; expected a map of servers") from None
    except ValueError as error:
        raise ConfigError(f"{file} is no JSON: {error}") from None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _toml(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{file} is nested too deep; expected a map of servers") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is no TOML: {error}") from None


def without_comments(text: str) -> str:
    """JSON out of JSON with comments and trailing commas."""
    plain = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text)
    return _STRING_OR_COMMA.sub(lambda match: match[1] or "", plain)
