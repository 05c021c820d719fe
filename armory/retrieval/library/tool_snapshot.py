"""The tools of a memory at one moment, and which of them a query may find.

Owns: `ToolSnapshot`, filters. Never imports the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cachetools import LRUCache

from armory.domain.query import VisibleSet
from armory.retrieval.library.toolbox import Tool

Filter = Mapping[str, Any] | Callable[[Tool], bool]
_SETS = 16
"""Visible sets that are kept: the retriever holds on to every one that it was given."""


class ToolSnapshot:
    """The tools of one moment: a search keeps reading these, whatever changes while it waits.

    Args:
        tools: by identifier.
    """

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.tools = dict(tools)
        self._all: dict[bool, VisibleSet] = {}
        self._sets: LRUCache[frozenset[str], VisibleSet] = LRUCache(_SETS)

    def visible(
        self, filters: Filter | None, include_private: bool, exclude: frozenset[str]
    ) -> VisibleSet:
        """What a query may find; the same object for the same tools."""
        if filters is None and not exclude:
            known = self._all.get(include_private)
            if known is None:
                known = self._all[include_private] = VisibleSet(self._names(None, include_private))
            return known
        names = self._names(filters, include_private) - exclude
        known = self._sets.get(names)
        if known is None:
            known = self._sets[names] = VisibleSet(names)
        return known

    def _names(self, filters: Filter | None, include_private: bool) -> frozenset[str]:
        return frozenset(
            identifier
            for identifier, tool in self.tools.items()
            if (include_private or not tool.private) and _fits(tool, filters)
        )


def _fits(tool: Tool, filters: Filter | None) -> bool:
    if filters is None:
        return True
    if callable(filters):
        return bool(filters(tool))
    for key, wanted in filters.items():
        if key == "tags":
            names = {wanted} if isinstance(wanted, str) else set(wanted)
            if not names & set(tool.tags):
                return False
        elif tool.metadata.get(key) != wanted:
            return False
    return True
