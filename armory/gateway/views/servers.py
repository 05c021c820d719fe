"""The upstreams of a snapshot, as far as each caller sees anything of them.

Owns: `VisibleServers`. Never looks at an upstream itself, or at whether it is connected.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

from cachetools import LRUCache

from armory.domain.catalog import Catalog, ServerLists
from armory.domain.principal import Principal
from armory.domain.tool import ListedRecord, ToolRecord
from armory.domain.visibility import VisibleCatalog
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.requests import ClientRequest
from armory.gateway.subscription import Subscription
from armory.security.policy import Policy

_KEPT = 10_000


class VisibleServers:
    """Which upstreams of a catalog are seen at an endpoint, and by whom.

    Args:
        catalog: the snapshot.
        policy: who may see what.
        personal: upstreams whose lists may differ from caller to caller.
    """

    def __init__(self, catalog: Catalog, policy: Policy, personal: Container[str]) -> None:
        self._catalog = catalog
        self._policy = policy
        self._personal = personal
        self._usable = LRUCache[str, frozenset[str]](_KEPT)
        self._whole = LRUCache[str, bool](_KEPT)

    def at(self, endpoint: Endpoint) -> Mapping[str, ServerLists]:
        """The upstreams of which an endpoint shows anything, in configuration order."""
        scope, servers = endpoint.scope, self._catalog.servers
        if scope.everything:
            return servers
        tools = self._catalog.tools.values()
        with_tools = {tool.server for tool in tools if scope.has_tool(tool.server, tool.name)}
        return {
            key: lists
            for key, lists in servers.items()
            if key in with_tools or scope.has_server(key)
        }

    def may_use(self, principal: Principal, endpoint: Endpoint, server: str) -> bool:
        """Whether `principal` sees anything of a server at an endpoint."""
        if server not in self._catalog.servers:
            return False
        if not self._policy.restricts:
            return endpoint.scope.has_server(server) or server in self.at(endpoint)
        visible = self._policy.visible_catalog(self._catalog, principal, endpoint.scope)
        usable = self._usable.get(visible.tools.key)
        if usable is None:
            usable = self._usable[visible.tools.key] = frozenset(
                records[name].server for records, names in self._kinds(visible) for name in names
            )
        return server in usable

    def seen_by(self, principal: Principal) -> list[str]:
        """The upstreams of which `principal` sees anything, in configuration order."""
        return [key for key in self._catalog.servers if self.may_use(principal, ALL, key)]

    def known_to(self, request: ClientRequest) -> Mapping[str, ServerLists]:
        """The upstreams of its endpoint that a caller may know of.

        Those of which it sees something, and those of which it may once they list anything, or list
        something for this caller.
        """
        principal, endpoint, policy = request.principal, request.endpoint, self._policy
        servers = self.at(endpoint)
        if endpoint.transparent or not policy.restricts:
            return servers

        def is_known(key: str, lists: ServerLists) -> bool:
            if self.may_use(principal, endpoint, key):
                return True
            may_list = not lists.entries or key in self._personal
            return may_list and policy.concerns(principal, key)

        return {key: lists for key, lists in servers.items() if is_known(key, lists)}

    def sees_whole(self, asker: ClientRequest | Subscription) -> bool:
        """Whether policy hides nothing of the endpoint from the caller."""
        if not self._policy.restricts:
            return True
        scope = asker.endpoint.scope
        visible = self._policy.visible_catalog(self._catalog, asker.principal, scope)
        whole = self._whole.get(visible.tools.key)
        if whole is None:
            whole = self._whole[visible.tools.key] = all(
                name in names
                for records, names in self._kinds(visible)
                for name, record in records.items()
                if scope.has_server(record.server)
            )
        return whole

    def _kinds(
        self, visible: VisibleCatalog
    ) -> tuple[tuple[Mapping[str, ListedRecord | ToolRecord], Collection[str]], ...]:
        """All entries of each kind, with the visible names among them."""
        catalog = self._catalog
        return (
            (catalog.tools, visible.tools.names),
            (catalog.prompts, visible.prompts),
            (catalog.resources, visible.resources),
            (catalog.templates, visible.templates),
            (catalog.skills, visible.skills),
        )
