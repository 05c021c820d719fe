"""`Mcp-Param-*` headers toward an upstream, made anew from the body.

Owns: which argument goes into which header. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.protocol.headers import Declared, header_value, rendered
from armory.protocol.rawjson import members_or_none, value


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
            text = rendered(value(node))
            if text is not None:
                headers[header] = header_value(text)
    return headers
