"""The view of one principal, where some upstreams give each principal its own lists.

Owns: `PrincipalView`: how it differs from the view that everybody else has. Never imports a
transport or retrieval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cachetools import LRUCache

from armory.domain.catalog import Catalog
from armory.domain.query import VisibleSet
from armory.domain.results import Match, Selection
from armory.domain.visibility import VisibleCatalog
from armory.gateway.requests import ClientRequest
from armory.gateway.views.view import View
from armory.threads import let_go

_JOINED_BYTES = 16 << 20


class PrincipalView(View):
    """A view in which some upstreams' lists are those of one principal.

    Args:
        catalog: the snapshot with its lists in it.
        base: the view that it was made from.
        aliases: exposed name -> name in the search index, for tools that only some callers have,
            or have with another definition.
        missing: why the lists of servers could not be fetched, "" for not yet; nothing of them is
            shown.
        own_bytes: size of its lists, as they came, as far as they are not everybody's.

    Attributes:
        aliases: as given.
        own_bytes: as given.
    """

    def __init__(
        self,
        catalog: Catalog,
        base: View,
        aliases: Mapping[str, str],
        missing: Mapping[str, str] | None = None,
        own_bytes: int = 0,
    ) -> None:
        policy = base.policy.with_own_caches()
        super().__init__(catalog, policy, base.settings, base, joined_bytes=_JOINED_BYTES)
        self._base = base
        self._missing = missing or {}
        self.aliases = aliases
        self.own_bytes = own_bytes
        self._by_alias = {alias: name for name, alias in aliases.items()}
        self._searchable = LRUCache[str, VisibleSet](64)

    def end(self) -> None:
        """The view is not cached any more: release its own data beside the event loop."""
        tools = self.catalog.tools
        let_go([tools[name] for name in self.aliases])

    def lacks(self, request: ClientRequest) -> str | None:
        """As `View.lacks`; names only servers that everybody may know of."""
        scope, concerns = request.endpoint.scope, self.policy.concerns
        missing = sorted(
            key
            for key in self._missing
            if scope.has_server(key) and concerns(request.principal, key)
        )
        if not missing:
            return None
        known = [
            key
            for key in missing
            if self._base.servers.may_use(request.principal, request.endpoint, key)
        ]
        named = ", ".join(known) or "an upstream"
        return f"without the lists of {named}, which have not come yet"

    def lists_failure(self, server: str) -> str:
        """As `View.lists_failure`."""
        return self._missing.get(server, "")

    def searchable(self, visible: VisibleCatalog, *, kept: bool = True) -> VisibleSet:
        """As `View.searchable`."""
        key = visible.tools.key
        tools = self._searchable.get(key) if kept else None
        if tools is None:
            seen = super().searchable(visible, kept=kept).names
            names = frozenset(self.aliases.get(name, name) for name in seen)
            tools = VisibleSet(names, f"{key}/own")
            if kept:
                self._searchable[key] = tools
        return tools

    def common(self, visible: VisibleCatalog) -> VisibleSet:
        """As `View.common`."""
        seen = super().searchable(visible).names
        names = (name for name in seen if name not in self.aliases)
        return VisibleSet(frozenset(names), f"{visible.tools.key}/common")

    def named(self, selection: Selection) -> Selection:
        """As `View.named`."""
        tools, skills = self.catalog.tools, self.catalog.skills

        def known(matches: tuple[Match, ...]) -> tuple[Match, ...]:
            named = ((m, self._by_alias.get(m.tool.name, m.tool.name)) for m in matches)
            found = ((match, tools.get(name) or skills.get(name)) for match, name in named)
            return tuple(replace(match, tool=tool) for match, tool in found if tool is not None)

        return replace(
            selection,
            matches=known(selection.matches),
            nearest=known(selection.nearest),
            ranking=known(selection.ranking),
            withheld={self._by_alias.get(n, n): why for n, why in selection.withheld.items()},
        )
