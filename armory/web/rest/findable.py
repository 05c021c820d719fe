"""The tools that a caller may find over REST: of the catalog and registered ones, by policy.

Owns: these sets, and whether the index holds what is in them. Never searches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_

from cachetools import LRUCache

from armory.domain.catalog import Catalog
from armory.domain.principal import Principal
from armory.domain.query import VisibleSet
from armory.domain.tool import ToolRecord
from armory.gateway.views.definitions import for_models
from armory.web.rest.services import RestServices

_SETS_KEPT = 2_048


@dataclass(slots=True, eq=False)
class Findable:
    """The tools that principals with equal rights may find.

    Attributes:
        base: what policy lets them see of the catalog.
        registered: the tools that no upstream offers, by name.
        visible: what they may find of both.
        digest: of all that this says.
        settled: the tools of the index that were found to be the same.
    """

    base: VisibleSet
    registered: Mapping[str, ToolRecord]
    visible: VisibleSet
    digest: str
    settled: Sequence[ToolRecord] | None = None


class FindableTools:
    """Computes and caches the tools that callers may find.

    Args:
        services: see `RestServices`.
    """

    def __init__(self, services: RestServices) -> None:
        self._services = services
        self._sets: LRUCache[tuple[int, str], Findable] = LRUCache(_SETS_KEPT)
        self._sets_of: tuple[object, ...] = (None, None, None)
        self._catalog: tuple[Catalog, str] | None = None
        self._indexed: tuple[Sequence[ToolRecord], dict[str, ToolRecord]] | None = None

    def of(self, principal: Principal, *, packs: bool) -> Findable:
        """The tools that a principal may find; the same object while nothing of it changes.

        Args:
            principal: who asks.
            packs: whether the active packs of its user narrow that.
        """
        services = self._services
        policy, catalog = services.policy(), services.catalog()
        registered = services.accounts.registry.records
        now = policy, catalog, registered
        if not all(map(is_, now, self._sets_of)):
            self._sets.clear()  # nobody asks for those any more, and each holds what it is of
            self._sets_of = now
        base = policy.visible_tools(catalog, principal, packs=packs)
        key = (id(base), repr(policy.profile(principal, packs=packs)))
        known = self._sets.get(key)
        if known is not None and known.base is base:
            return known
        extra = frozenset(
            name
            for name, tool in registered.items()
            if name not in base.names
            if policy.allows_listed(principal, tool, packs=packs)
            # what an upstream offers is decided by the catalog alone
            if name not in catalog.tools
            if for_models(tool)
        )
        apps = frozenset(name for name in base.names if not for_models(catalog.tools[name]))
        visible = base
        if extra or apps:
            visible = VisibleSet(
                (base.names | extra) - apps, f"{base.key}+{len(extra)}-{len(apps)}"
            )
        text = "\n".join(sorted(visible.names))
        content = self._content(catalog) + "".join(_text_of(registered[n]) for n in sorted(extra))
        digest = hashlib.sha256(f"{content}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
        found = self._sets[key] = Findable(base, registered, visible, digest)
        return found

    def is_indexed(self, among: Findable) -> bool:
        """Whether the index holds all of these tools as they are now; it follows the catalog soon
        after.
        """
        tools = self._services.engine.tools
        if among.settled is tools:
            return True
        if self._indexed is None or self._indexed[0] is not tools:
            self._indexed = (tools, {tool.name: tool for tool in tools})
        indexed, catalog = self._indexed[1], self._services.catalog().tools
        for name in among.visible.names:
            wanted = catalog.get(name) or among.registered.get(name)
            found = indexed.get(name)
            if found is not wanted and (found is None or found != wanted):
                return False
        among.settled = tools
        return True

    def _content(self, catalog: Catalog) -> str:
        """A digest of all tools of the catalog; the same on all replicas."""
        if self._catalog is None or self._catalog[0] is not catalog:
            content = hashlib.sha256()
            for tool in catalog.tools.values():
                content.update(_text_of(tool).encode("utf-8", "surrogatepass"))
            for server in catalog.servers.values():
                content.update(
                    repr((server.info, server.instructions)).encode("utf-8", "surrogatepass")
                )
            self._catalog = (catalog, content.hexdigest())
        return self._catalog[1]


def _text_of(tool: ToolRecord) -> str:
    """All parts of a tool that answers depend on."""
    return repr((tool.name, tool.fingerprint, tool.description, tool.tags, tool.category))
