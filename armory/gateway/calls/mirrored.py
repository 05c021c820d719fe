"""`Mcp-Param-*` headers toward an upstream, made anew from the body.

Owns: rendering argument values as header values. Never imports the MCP SDK or a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from armory.protocol.headers import header_value
from armory.protocol.rawjson import members_or_none, value

Declared = Mapping[str, tuple[tuple[str, ...], str]]


def mirrored_headers(declared: Declared, params: Mapping[str, Raw]) -> Mapping[str, str]:
    """The headers that mirror the call's arguments; absent and null ones have none."""
    if not declared:
        return {}
    headers: dict[str, str] = {}
    for header, (path, _) in declared.items():
        node = params.get("arguments")
        for key in path:
            opened = members_or_none(node)
            node = opened.get(key) if opened is not None else None
        if node is not None:
            rendered = _render(value(node))
            if rendered is not None:
                headers[header] = header_value(rendered)
    return headers


def _render(given: Any) -> str | None:
    if isinstance(given, bool):
        return "true" if given else "false"
    return str(given) if isinstance(given, str | int | float) else None
