"""Server maps as other MCP clients write them.

Owns: turning an `mcpServers` map (Claude, Cursor, Windsurf ...) or VS Code's `servers` map into
upstream blocks. Never imports a room above `domain`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from armory.config.upstream import UpstreamConfig
from armory.domain.naming import slug

_TRANSPORTS = {
    "stdio": "auto",
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamable_http": "streamable-http",
    "sse": "sse",
}
_URL_KEYS = ("url", "serverUrl", "httpUrl")
_OFF = ("disabled",)
_TYPE_KEYS = ("type", "transport", "transportType")
_LOCAL_REFERENCE = re.compile(r"\$\{(userHome|workspaceFolder|pathSeparator)\}")


@dataclass(slots=True)
class Imported:
    """What a map became.

    Attributes:
        upstreams: blocks as `armory.yaml` would have them, by key.
        names: the map's own name of each key.
        notices: one line for each thing that the reader should know.
    """

    upstreams: dict[str, Any] = field(default_factory=dict[str, Any])
    names: dict[str, str] = field(default_factory=dict[str, str])
    notices: list[str] = field(default_factory=list[str])


def import_servers(
    servers: Mapping[Any, Any], *, taken: Collection[str] = (), home: str = "~"
) -> Imported:
    """Every server of a client's map as an upstream block.

    Names become keys (`My Server` -> `my-server`), transports get Armory's names, keys that mean
    nothing to a gateway are left out with a notice. Entries that are no mapping are kept as they
    are, so that validation names them.

    Args:
        servers: the map, verbatim.
        taken: keys that other upstreams have already.
        home: what `${userHome}` stands for.
    """
    result = Imported()
    for name, entry in servers.items():
        key = _free_key(slug(str(name)), {*taken, *result.upstreams})
        if key != name:
            result.notices.append(f"server {str(name)!r} is called {key!r} here")
        if not isinstance(entry, dict):
            result.upstreams[key] = entry
            result.names[key] = str(name)
            continue
        if any(entry.get(flag) is True for flag in _OFF):
            result.notices.append(f"server {str(name)!r} is disabled there and left out")
            continue
        result.upstreams[key] = _block(key, entry, home, result.notices)
        result.names[key] = str(name)
    return result


def _free_key(wanted: str, taken: Collection[str]) -> str:
    key, number = wanted, 2
    while key in taken:
        key, number = f"{wanted}-{number}", number + 1
    return key


def _block(key: str, entry: dict[Any, Any], home: str, notices: list[str]) -> dict[str, Any]:
    block: dict[str, Any] = {}
    dropped: list[str] = []
    for name, value in entry.items():
        if name in _URL_KEYS:
            block["url"] = value
            if name == "httpUrl":
                block.setdefault("transport", "streamable-http")
        elif name in _TYPE_KEYS:
            block["transport"] = _TRANSPORTS.get(value, value) if isinstance(value, str) else value
        elif name in UpstreamConfig.model_fields:
            block[name] = value
        elif name not in _OFF:
            dropped.append(str(name))
    if "command" in block and block.get("transport") == "auto":
        del block["transport"]
    if dropped:
        notices.append(
            f"server {key!r}: {', '.join(dropped)} left out, which a gateway has no use for"
        )
    return _fill_local(block, home)


def _fill_local(value: Any, home: str) -> Any:
    """`${userHome}` and the like, which editors fill in themselves."""
    if isinstance(value, dict):
        return {key: _fill_local(inner, home) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill_local(inner, home) for inner in value]
    if isinstance(value, str):
        filled = {"userHome": home, "workspaceFolder": ".", "pathSeparator": "/"}
        return _LOCAL_REFERENCE.sub(lambda match: filled[match[1]], value)
    return value
