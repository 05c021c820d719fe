"""Server maps as other MCP clients write them.

Owns: turning an `mcpServers` map (Claude, Cursor, Windsurf ...) or VS Code's `servers` map into
upstream blocks; logins and the like are in `credentials`. Never imports a room above `domain`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from armory.config.blocks.upstream import ToolsConfig, UpstreamConfig
from armory.config.clients.credentials import (
    take_credential,
    take_login,
    take_scopes,
    take_trust,
    unknown_in_logins,
)
from armory.config.clients.placing import put
from armory.config.clients.windows import adapt_from_windows
from armory.config.expand import referred
from armory.config.fit import misplaced_keys
from armory.domain.naming import slug

_TRANSPORTS = {
    "stdio": "auto",
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamable_http": "streamable-http",
    "sse": "sse",
}
_URL_KEYS = ("url", "serverUrl", "httpUrl", "baseUrl", "uri")
_OFF = ("disabled",)
_WITHIN = ("requestOptions", "transport")
"""Mappings in which some clients keep a part of a server."""
_SAME = {
    "environment": "env",
    "envs": "env",
    "includeTools": "tools.allow",
    "enabled_tools": "tools.allow",
    "excludeTools": "tools.deny",
    "disabledTools": "tools.deny",
    "disabled_tools": "tools.deny",
    "http_headers": "headers",
    "env_vars": "inherit_env",
    "working_directory": "cwd",
    "workingDirectory": "cwd",
    "startup_timeout_sec": "start_timeout_s",
    "tool_timeout_sec": "call_timeout_s",
}
"""What other clients call keys that there are here."""
_MILLISECONDS = 1_000
"""A time-out from here on is in milliseconds ..."""
_MILLISECONDS_TO_START = ("startup_timeout_ms", "initTimeout", "connectionTimeout")
_LONG_WAITS = (1_800, 3_600)
"""... but for the half hour and the hour that Cline offers, in seconds as all of its time-outs."""
_APART = {"startup": "start_timeout_s", "request": "call_timeout_s"}
_ELSEWHERE = ("envFile", "source", "settings", "isActive")
_BRACED = re.compile(r"(?<!\$)\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_DOUBLY_BRACED = re.compile(r"\$\{\{\s*+(?:secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*+)\s*+\}\}")
_LOCAL = ("local", "remote", "custom", "extension")
_TYPE_KEYS = ("type", "transport", "transportType")
_PLAIN_REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LOCAL_REFERENCE = re.compile(
    r"\$\{(userHome|workspaceFolder|workspaceFolderBasename|pathSeparator|/)\}"
)


@dataclass(slots=True)
class Imported:
    """The servers of another client's map, as upstreams.

    Attributes:
        upstreams: blocks as `armory.yaml` would have them, by key.
        names: the map's own name of each key.
        notices: one line for each thing that the reader should know.
    """

    upstreams: dict[str, Any] = field(default_factory=dict[str, Any])
    names: dict[str, str] = field(default_factory=dict[str, str])
    notices: list[str] = field(default_factory=list[str])


def import_servers(
    servers: Mapping[Any, Any],
    *,
    taken: Collection[str] = (),
    home: str = "~",
    workspace: str = ".",
) -> Imported:
    """Every server of a client's map as an upstream block.

    Names become keys (`My Server` -> `my-server`; one that is a key stays it, whatever else is
    there), transports get Armory's names, keys that mean nothing to a gateway are left out with a
    notice. Entries that are no mapping are kept as they are, so that validation names them.

    Args:
        servers: the map, verbatim.
        taken: keys that other upstreams have already.
        home: what `${userHome}` stands for.
        workspace: what `${workspaceFolder}` stands for.
    """
    local = {
        "userHome": home,
        "workspaceFolder": workspace,
        "workspaceFolderBasename": os.path.basename(workspace),
        "pathSeparator": "/",
        "/": "/",
    }
    result = Imported()
    as_they_are = {name for name in map(str, servers) if slug(name) == name}
    for name, entry in servers.items():
        key = _free_key(slug(str(name)), {*taken, *result.upstreams, *as_they_are - {str(name)}})
        if key != name:
            result.notices.append(f"server {str(name)!r} is called {key!r} here")
        if not isinstance(entry, dict):
            result.upstreams[key] = entry
            result.names[key] = str(name)
            continue
        if any(entry.get(flag) is True for flag in _OFF) or entry.get("isActive") is False:
            result.notices.append(f"server {str(name)!r} is disabled there and left out")
            continue
        result.upstreams[key] = _fill_local(_block(key, entry, result.notices), local)
        result.names[key] = str(name)
    return result


def _free_key(wanted: str, taken: Collection[str]) -> str:
    key, number = wanted, 2
    while key in taken:
        key, number = f"{wanted}-{number}", number + 1
    return key


def _block(key: str, entry: dict[Any, Any], notices: list[str]) -> dict[str, Any]:
    block: dict[str, Any] = {}
    members = sorted(_flat(entry), key=lambda member: member[0] == "scopes")
    dropped = [
        str(name)
        for name, value in members
        if not any(taken(block, str(name), value) for taken in _TAKERS)
        and name not in (*_OFF, *_ELSEWHERE)
    ]
    dropped += unknown_in_logins(entry)
    if "command" in block and block.get("transport") == "auto":
        del block["transport"]
    if "url" in block and "start_timeout_s" in block:  # nothing is started
        block["connect_timeout_s"] = block.pop("start_timeout_s")
    misplaced = [name for name in misplaced_keys(block) if block.pop(name)]
    notices += adapt_from_windows(key, block)
    _leave_to_program(block)
    _write_out_switches(block.get("env"))
    if dropped:
        notices.append(
            f"server {key!r}: {', '.join(dropped)} left out, for which there is no key here"
        )
    if misplaced:
        kind = "that is started" if "command" in block else "at a URL"
        notices.append(
            f"server {key!r}: {', '.join(misplaced)} left out, which a server {kind} has no use for"
        )
    return block


def _flat(entry: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """The members of a server, those within another among them; one that is null is not there."""
    for name, value in entry.items():
        if name in _WITHIN and isinstance(value, dict):
            for inner, held in value.items():  # Continue's are in seconds, up to 7,200
                seconds = (name, inner) == ("requestOptions", "timeout")
                yield ("tool_timeout_sec" if seconds else inner), held
        elif value is not None:
            yield name, value


def _write_out_switches(env: Any) -> None:
    """Make texts of variables that are `true` or `false`, as clients hand them over."""
    for name, value in env.items() if isinstance(env, dict) else ():
        if isinstance(value, bool):
            env[name] = str(value).lower()


def _leave_to_program(block: dict[str, Any]) -> None:
    """Keep `${VAR}` in arguments where the server's own `env` has VAR: clients hand it over as it
    is, and the program fills it in (`mcp-remote --header Authorization:${AUTH_HEADER}`).
    """
    env, args = block.get("env"), block.get("args")
    if not (isinstance(env, dict) and isinstance(args, list)):
        return
    given = {name for name, value in env.items() if not _refers_to(str(value), str(name))}
    block["args"] = [
        _PLAIN_REFERENCE.sub(lambda it: "$" * (it[1] in given) + it[0], text)
        if isinstance(text, str)
        else text
        for text in args
    ]


def _refers_to(value: str, name: str) -> bool:
    return name in referred(value) or value == f"${name}"


def _take_transport(block: dict[str, Any], name: str, value: Any) -> bool:
    """Take a member that says where the server is; False: it says something else."""
    if name in _URL_KEYS:
        block["url"] = value
        if name == "httpUrl":
            block.setdefault("transport", "streamable-http")
    elif name in _TYPE_KEYS:
        if value not in _LOCAL:
            block["transport"] = _TRANSPORTS.get(value, value) if isinstance(value, str) else value
    else:
        return False
    return True


def _take_command(block: dict[str, Any], name: str, value: Any) -> bool:
    """Likewise one that says how it is started, or how long anything may take."""
    if name in ("command", "cmd"):
        _command(block, value)
    elif name == "args":
        block["args"] = [*block.get("args", []), *value] if isinstance(value, list) else value
    elif name == "timeout" and isinstance(value, (int, float)):
        in_seconds = value < _MILLISECONDS or value in _LONG_WAITS
        block["call_timeout_s"] = value if in_seconds else value / 1_000
    elif name == "timeout" and isinstance(value, dict):
        _times(block, value)
    elif name in _MILLISECONDS_TO_START and isinstance(value, (int, float)):
        block["start_timeout_s"] = value / 1_000
    else:
        return False
    return True


def _times(block: dict[str, Any], value: dict[Any, Any]) -> None:
    """Time-outs apart, as opencode has them, in milliseconds."""
    for name, place in _APART.items():
        if isinstance(value.get(name), (int, float)):
            block[place] = value[name] / 1_000


def _named(block: dict[str, Any], name: str, value: Any) -> bool:
    place = _SAME.get(name, name if name in UpstreamConfig.model_fields else None)
    if name == "tools" and isinstance(value, list):  # Copilot's: those that are offered
        place = "tools.allow"
    elif name == "tools" and _are_approvals(value):
        return False
    elif name == "available_tools":  # Goose's: none named is all of them
        place = "tools.allow" if value else None
    elif name == "env_vars" and isinstance(value, list):  # Codex: some say whose they are
        value = [one.get("name") if isinstance(one, dict) else one for one in value]
    if place is not None:
        put(block, place, value)
    return place is not None or name == "available_tools"


_TAKERS = (
    _take_transport,
    _take_command,
    take_login,
    take_scopes,
    take_credential,
    take_trust,
    _named,
)
"""Each takes a member of a server into a block, or says that it is not for it."""


def _are_approvals(tools: Any) -> bool:
    """Whether `tools` is Codex's table of which tool runs unasked, and no filter."""
    return (
        isinstance(tools, dict)
        and not tools.keys() <= ToolsConfig.model_fields.keys()
        and all(isinstance(inner, dict) for inner in tools.values())
    )


def _command(block: dict[str, Any], value: Any) -> None:
    """A program: its name, a list with its arguments (opencode), or a mapping (Zed)."""
    if isinstance(value, list) and value:
        block["command"] = value[0]
        block["args"] = [*value[1:], *block.get("args", [])]
    elif isinstance(value, dict):
        block["command"] = value.get("path")
        block["args"] = [*(value.get("args") or []), *block.get("args", [])]
        if value.get("env"):
            put(block, "env", value["env"])
    else:
        block["command"] = value


def _fill_local(value: Any, local: Mapping[str, str]) -> Any:
    """`${userHome}` and the like, which editors fill in themselves."""
    if isinstance(value, dict):
        return {key: _fill_local(inner, local) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill_local(inner, local) for inner in value]
    if isinstance(value, str):
        value = _BRACED.sub(lambda match: f"${{{match[1]}}}", value)
        value = _DOUBLY_BRACED.sub(lambda match: f"${{{match[1]}}}", value)
        return _LOCAL_REFERENCE.sub(lambda match: local[match[1]], value)
    return value
