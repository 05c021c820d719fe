"""Servers that are switched off in a client whose file is taken over.

Owns: where clients keep that: Gemini CLI and those made of it in their settings and a file beside
them, Claude Code by project and in its settings. Never imports a room but `config`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

Off = Callable[[str], bool]
"""Whether a server of that name is switched off."""
Read = Callable[[Path], Mapping[str, Any]]

_OURS = ("disabledMcpServers", "disabledMcpjsonServers")
"""Claude Code's, of a project: those of any file, those of `.mcp.json`."""
_EXCLUDED = (("mcp", "excluded"), ("excludeMCPServers",), *((name,) for name in _OURS))
_ALLOWED = (("mcp", "allowed"), ("allowMCPServers",))
_ENABLEMENT = "mcp-server-enablement.json"


def off_in(file: Path, data: Mapping[str, Any], read: Read) -> Off:
    """What is off of the servers that a file names for everything.

    Args:
        file: the client's.
        data: what is in it.
        read: gives what another file holds; nothing where it cannot be read.
    """
    excluded = {one for place in _EXCLUDED for one in _names(data, *place)}
    allowed = {one for place in _ALLOWED for one in _names(data, *place)}
    if file.absolute().parent.name == ".gemini":
        states = read(Path(os.path.expanduser("~")) / ".gemini" / _ENABLEMENT)
        excluded |= {_normalized(one) for one, state in states.items() if _is_off(state)}
    if file.name == ".mcp.json":
        excluded |= set(_by_claude(file.absolute().parent, read))
    return lambda name: (
        _normalized(name) in excluded or bool(allowed and _normalized(name) not in allowed)
    )


def off_in_project(project: Mapping[str, Any]) -> Off:
    """What is off in one of Claude Code's projects."""
    names = _names(project, _OURS[0])
    return lambda name: _normalized(name) in names


def _by_claude(folder: Path, read: Read) -> Iterator[str]:
    """Names of servers of a folder's `.mcp.json` that its user switched off."""
    settings = Path(".claude") / "settings.json"
    for file in (folder / settings, folder / ".claude" / "settings.local.json"):
        yield from _names(read(file), _OURS[1])
    yield from _names(read(Path(os.path.expanduser("~")) / settings), _OURS[1])
    known = read(Path(os.path.expanduser("~")) / ".claude.json").get("projects")
    project: Any = cast("dict[str, Any]", known).get(str(folder)) if isinstance(known, dict) else {}
    for key in _OURS:
        yield from _names(project, key)


def _names(data: Any, *place: str) -> set[str]:
    """The names of a list; none where there is none."""
    for part in place:
        data = cast("Mapping[str, Any]", data).get(part) if isinstance(data, Mapping) else None
    listed = cast("list[Any]", data) if isinstance(data, list) else []
    return {_normalized(one) for one in listed if isinstance(one, str)}


def _is_off(state: Any) -> bool:
    return isinstance(state, dict) and cast("dict[str, Any]", state).get("enabled") is False


def _normalized(name: str) -> str:
    """As Gemini CLI compares them."""
    return name.strip().lower()
