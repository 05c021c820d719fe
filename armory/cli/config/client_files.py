"""The files in which MCP clients keep their servers.

Owns: reading them and finding the maps. Claude Desktop and Code, Cursor, VS Code, Gemini CLI and
others (JSON, comments allowed), Codex (TOML), opencode, Zed, Goose and Continue (YAML). Never
imports a room but `config` and `domain`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from armory.cli.config.switched_off import Off, off_in, off_in_project
from armory.config.dotenv import not_utf8
from armory.config.loaded import ConfigProblems
from armory.config.source import Source
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
    ("amp.mcpServers",),
    ("settings", "mcp", "servers"),
    ("customizations", "vscode", "mcp", "servers"),
    ("extensions",),
)
_GOOSE = ("extensions",)
_WAYS = ("command", "url", "serverUrl")
Servers = dict[str, Any]


def servers_of(file: Path) -> Servers:
    """Every server of a client's file, by the name that it has there.

    Raises:
        ConfigError: the file cannot be read, or has none.
    """
    data = _read(file)
    projects = _entries(data.get("projects"))
    off = off_in(file, data, _or_nothing)
    everywhere = [off_in_project(project) for _, project in projects]
    maps: list[tuple[Servers | None, str]] = [
        (_marked(_map_in(data), lambda name: off(name) or _in_all(everywhere, name)), "")
    ]
    for folder, project in projects:  # Claude Code keeps servers by project
        own = _marked(_map_in(project), off_in_project(project))
        maps.append((own, slug(Path(folder).name)))
    found: Servers = {}
    named = [
        (name, entry, project)
        for servers, project in maps
        for name, entry in (servers or {}).items()
    ]
    for name, entry, project in sorted(named, key=lambda one: _is_off(one[1])):
        if found.get(name, entry) != entry:
            found[f"{name}-{project}"] = entry
        else:
            found.setdefault(name, entry)
    if all(servers is None for servers, _ in maps):
        raise ConfigError(
            f"{file} has no servers; expected a map 'mcpServers' (Claude, Cursor and others), "
            "'servers' (VS Code), 'mcp_servers' (Codex), 'mcp' (opencode), "
            "'context_servers' (Zed) or 'extensions' (Goose)"
        )
    return found


def _marked(servers: Servers | None, off: Off) -> Servers | None:
    """The servers, those that are switched off as a client marks them in the map itself."""
    if servers is None:
        return None
    return {
        name: {**entry, "disabled": True} if isinstance(entry, dict) and off(name) else entry
        for name, entry in servers.items()
    }


def _is_off(entry: Any) -> bool:
    return isinstance(entry, dict) and cast("Servers", entry).get("disabled") is True


def _in_all(projects: Sequence[Off], name: str) -> bool:
    """Whether a server for all projects is off in each of them."""
    return bool(projects) and all(off(name) for off in projects)


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
        if isinstance(found, list):
            found = _by_name(cast("list[Any]", found))
        if isinstance(found, dict) and not _are_settings(place, cast("Servers", found)):
            return cast("Servers", found)
    return cast("Servers", data) if _are_servers(data) else None


def _are_servers(data: Mapping[str, Any]) -> bool:
    """Whether a file is nothing but its servers, as Warp takes them."""
    entries = _entries(data)
    return 0 < len(entries) == len(data) and all(
        any(isinstance(entry.get(way), str) for way in _WAYS) for _, entry in entries
    )


def _by_name(listed: list[Any]) -> Servers | None:
    """A list of servers, as Continue has it, by their names; None: it is a list of something else.

    A block of another place (`uses`) is called by that.
    """
    servers: Servers = {}
    for entry in listed:
        if isinstance(entry, dict):
            rest = dict(cast("dict[str, Any]", entry))
            name = str(rest.pop("name", None) or rest.get("uses") or "server")
            servers[f"{name}-{len(servers) + 1}" if name in servers else name] = rest
    named = any(isinstance(entry, dict) and "name" in entry for entry in listed)
    return servers if named else None


def _are_settings(place: tuple[str, ...], found: Servers) -> bool:
    """Whether it is no map of servers but settings of that name: lists and the like under Gemini
    CLI's `mcp`, what an editor's `extensions` are, of which Goose's have a type.
    """
    entries = [inner for _, inner in _entries(found)]
    if place == _GOOSE:
        return not any("type" in entry for entry in entries)
    return place == ("mcp",) and bool(found) and not entries


def _or_nothing(file: Path) -> Mapping[str, Any]:
    """What another file of the client holds; nothing where it cannot be read."""
    try:
        return _read(file)
    except ConfigError:
        return {}


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise not_utf8(file, error) from None
    return _READERS.get(file.suffix, _json)(file, text)


def _json(file: Path, text: str) -> dict[str, Any]:
    try:
        data = json.loads(without_comments(text))
    except RecursionError:
        raise ConfigError(f"{file} is nested too deep; expected a map of servers") from None
    except ValueError as error:
        expected = "expected the file of a client, in JSON, or in TOML or YAML where it is named so"
        raise ConfigError(f"{file} is no JSON: {error}; {expected}") from None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _toml(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{file} is nested too deep; expected a map of servers") from None
    except ValueError as error:  # of numbers of thousands of digits as well
        raise ConfigError(f"{file} is no TOML: {error}") from None


def _yaml(file: Path, text: str) -> dict[str, Any]:
    source = Source(text)
    if source.problems:
        raise ConfigProblems(source.problems, str(file))
    return source.data


_READERS = {".toml": _toml, ".yaml": _yaml, ".yml": _yaml}


def without_comments(text: str) -> str:
    """JSON out of JSON with comments and trailing commas."""
    plain = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text)
    return _STRING_OR_COMMA.sub(lambda match: match[1] or "", plain)
