"""`Mcp-Param-*` headers toward an upstream, computed from the body.

Owns: which argument goes into which header. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.protocol.headers import Declared, header_value, rendered
from armory.protocol.rawjson import values_at


def mirrored_headers(declared: Declared, params: Mapping[str, Raw]) -> Mapping[str, str]:
    """The headers that mirror the call's arguments; none for absent and null ones."""
    if not declared:
        return {}
    headers: dict[str, str] = {}
    given = values_at(params.get("arguments"), (path for path, _ in declared.values()))
    for header, (path, _) in declared.items():
        text = rendered(given.get(path))
        if text is not None:
            headers[header] = header_value(text)
    return headers
