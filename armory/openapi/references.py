"""References within a description.

Owns: resolving references within one document, and the limit on the work of reading a document.
References to other documents are never followed. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

MAX_HOPS = 16
MAX_PARAMETERS = 200
MAX_STEPS = 10_000_000
"""Steps of reading a description: by reference parts of it are meant again and again. What
takes them all makes more than `server.limits.list_bytes`, too."""
Object = Mapping[str, Any]


class BadDescription(Exception):
    """A description, or a part of it, is not usable; the message says why."""


class References:
    """The references of one document; reading stops when it has cost too much.

    Args:
        content: the whole document.
    """

    def __init__(self, content: Object) -> None:
        self._content = content
        self._left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Count this many steps of work.

        Raises:
            BadDescription: there are no more.
        """
        self._left -= steps
        if self._left < 0:
            raise BadDescription("the description takes too long to read")

    def followed(self, node: Any) -> Any:
        """Resolve a node's references.

        Raises:
            BadDescription: a reference leaves the document, leads nowhere or in a circle, or there
                are no more steps.
        """
        self.spend(1)
        for _ in range(MAX_HOPS):
            if not isinstance(node, dict):
                return node
            reference = cast("dict[str, Any]", node).get("$ref")
            if not isinstance(reference, str):
                return cast("dict[str, Any]", node)
            node = self._at(reference)
        raise BadDescription("its references lead in a circle")

    def _at(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise BadDescription(f"it refers to another document, {reference[:200]}")
        self.spend(1 + len(reference) // 16)
        node: Any = self._content
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


def listed_parameters(listed: Any) -> list[Any]:
    """The parameters of a path item or an operation.

    Raises:
        BadDescription: they are no list, or too many.
    """
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise BadDescription("its parameters are no list")
    if len(cast("list[Any]", listed)) > MAX_PARAMETERS:
        raise BadDescription(f"it has more than {MAX_PARAMETERS} parameters")
    return cast("list[Any]", listed)
