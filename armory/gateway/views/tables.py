"""Lookup tables over a catalog's tools, derived from the previous view's where most is the same.

Owns: `ToolTables`. Never imports a view, a policy or a transport.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from armory.domain.catalog import Catalog, replaced
from armory.domain.tool import ToolRecord, names_by_server
from armory.gateway.views.definitions import for_models
from armory.threads import Table


@dataclass(frozen=True, slots=True, eq=False)
class ToolTables:
    """Lookup tables over the tools of one catalog.

    Attributes:
        tools: by exposed name.
        positions: place of each in the catalog.
        originals: by server and original name.
        apps: those that models may not call.
        by_server: the exposed names of each server's, in the catalog's order.
    """

    tools: Mapping[str, ToolRecord]
    positions: Mapping[str, int]
    originals: Mapping[tuple[str, str], ToolRecord]
    apps: frozenset[str]
    by_server: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, catalog: Catalog, before: ToolTables | None = None) -> ToolTables:
        """The tables of a catalog, reusing those `before`."""
        tools = catalog.tools
        if before is not None and before.tools is tools:
            return before
        others = None if before is None else replaced(before.tools, tools)
        if before is None or others is None:
            return cls(
                tools,
                Table((name, place) for place, name in enumerate(tools)),
                Table(((tool.server, tool.original_name), tool) for tool in tools.values()),
                _apps(tools, before),
                names_by_server(tools.values()),
            )
        changed = [tools[name] for name in others]
        originals = Table((key, tool) for key, tool in before.originals.items())
        for name in others:
            originals.pop((before.tools[name].server, before.tools[name].original_name), None)
        originals.update({(tool.server, tool.original_name): tool for tool in changed})
        apps = before.apps
        others_apps = {tool.name for tool in changed if not for_models(tool)}
        if others_apps or not apps.isdisjoint(others):
            apps = apps.difference(others) | others_apps
        moved = any(before.tools[tool.name].server != tool.server for tool in changed)
        by_server = names_by_server(tools.values()) if moved else before.by_server
        return cls(tools, before.positions, originals, apps, by_server)


def _apps(tools: Mapping[str, ToolRecord], before: ToolTables | None) -> frozenset[str]:
    """The tools that models may not call; only new records are inspected."""
    if before is None:
        return frozenset(name for name, tool in tools.items() if not for_models(tool))
    known, apps = before.tools, before.apps
    return frozenset(
        name
        for name, tool in tools.items()
        if (name in apps if known.get(name) is tool else not for_models(tool))
    )
