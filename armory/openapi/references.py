"""References inside a description, and what is said where one cannot be used.

Owns: following references within one document. Those that leave it are never followed. Does no
I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

MAX_HOPS = 16
Object = Mapping[str, Any]


class BadDescription(Exception):
    """It is no description that can be used, or a part of it is none; says why."""


def followed(content: Object, node: Any) -> Any:
    """What a node is, its references followed as far as they go.

    Raises:
        BadDescription: a reference leaves the document, leads nowhere or in a circle.
    """
    for _ in range(MAX_HOPS):
        if not isinstance(node, dict):
            return node
        reference = cast("dict[str, Any]", node).get("$ref")
        if not isinstance(reference, str):
            return cast("dict[str, Any]", node)
        node = _at(content, reference)
    raise BadDescription("its references lead in a circle")


def _at(content: Object, reference: str) -> Any:
    if not reference.startswith("#"):
        raise BadDescription(f"it refers to another document, {reference[:200]}")
    node: Any = content
    for part in reference[1:].split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = cast("dict[str, Any]", node).get(key)
        elif isinstance(node, list) and key.isdigit() and len(key) < 7:
            items = cast("list[Any]", node)
            node = items[int(key)] if int(key) < len(items) else None
        else:
            node = None
        if node is None:
            raise BadDescription(f"it refers to {reference[:200]}, which is not there")
    return node
