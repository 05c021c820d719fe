"""Which lists differ for a caller between two views.

Owns: `ViewDifference`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from armory.domain.catalog import Catalog, Change, Diff
from armory.domain.principal import Principal
from armory.domain.tool import ListedRecord, ToolRecord
from armory.domain.visibility import Kind, Scope
from armory.gateway.endpoint import Endpoint
from armory.gateway.settings import GROUPS
from armory.gateway.views.view import View
from armory.protocol.methods import (
    GROUPS_CHANGED,
    PROMPTS_CHANGED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
)
from armory.security.policy import Decisions

_METHODS: tuple[tuple[str, tuple[Kind, ...]], ...] = (
    (TOOLS_CHANGED, ("tools",)),
    (PROMPTS_CHANGED, ("prompts",)),
    (RESOURCES_CHANGED, ("resources", "templates", "skills")),
)
_KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources", "templates", "skills")
_OF_LISTINGS = attrgetter(
    "tool_rag", "without_query", "full_list_limit", "search_tools", "call_tool", "find_tools",
    "pin", "server_pins", "query_chars", "query_top_k",
)  # fmt: skip
"""The settings that say which of the visible tools are listed, and what beside them."""


class ViewDifference:
    """The difference between two consecutive views, by caller.

    Args:
        old, new: the views.
        private: servers whose lists each principal has to itself: what differs there, these views
            do not show.
    """

    def __init__(self, old: View, new: View, private: frozenset[str]) -> None:
        self.old = old
        self.new = new
        self.private = private
        self._diff = diff = new.catalog.diff(old.catalog)
        self._parts = [
            Decisions(_part(catalog, diff, private)) for catalog in (old.catalog, new.catalog)
        ]
        before, after = old.catalog.servers, new.catalog.servers
        self._regrouped = {
            server
            for server in before.keys() & after.keys() - private
            if [*before[server].groups] != [*after[server].groups]
        }
        self._known: dict[tuple[object, ...], frozenset[str]] = {}
        self._private: dict[Kind, set[str]] = {}

    def __bool__(self) -> bool:
        old, new = self.old, self.new
        if self._diff or self._regrouped:
            return True
        return old.policy is not new.policy or old.settings is not new.settings

    def lists_changed(self, principal: Principal, endpoint: Endpoint) -> frozenset[str]:
        """The list-changed notifications that a caller at an endpoint should get."""
        old, new = self.old.policy, self.new.policy
        key = (new.profile(principal), old.profile(principal), endpoint.scope.key)
        changed = self._known.get(key)
        if changed is None:
            changed = self._known[key] = self._compare(principal, endpoint)
        return changed

    def _compare(self, principal: Principal, endpoint: Endpoint) -> frozenset[str]:
        old, new = self.old, self.new
        differing = self._differing(principal, _scope(old, endpoint), _scope(new, endpoint))
        changed = {method for method, kinds in _METHODS if not differing.isdisjoint(kinds)}
        if not endpoint.transparent and _listing(old, endpoint) != _listing(new, endpoint):
            changed.add(TOOLS_CHANGED)
        if any(new.servers.may_use(principal, endpoint, server) for server in self._regrouped):
            changed.add(GROUPS_CHANGED)
        return frozenset(changed)

    def _differing(self, principal: Principal, before: Scope, after: Scope) -> frozenset[Kind]:
        """The kinds of which a caller saw something else than it sees now. Where the rules are the
        same, whatever it sees of that which differs: each of thousands who listen may have rules of
        its own.
        """
        old, new = self.old, self.new
        if old.policy is new.policy and before == after:
            seen = (new.policy.kinds_seen(part, principal, after) for part in self._parts)
            return frozenset[Kind]().union(*seen)
        then = old.policy.visible_catalog(old.catalog, principal, before)
        now = new.policy.visible_catalog(new.catalog, principal, after)
        return frozenset(
            kind for kind in _KINDS if self._differs(kind, then.names(kind), now.names(kind))
        )

    def _differs(self, kind: Kind, before: frozenset[str], after: frozenset[str]) -> bool:
        if not self.private and before != after:
            return True  # the union below is of both lists where all is new
        private = self._of_private(kind) if self.private else set[str]()
        if private:
            before, after = before - private, after - private
        changes: Change = getattr(self._diff, kind)
        return before != after or any(
            name in after and name not in private for name in changes.names()
        )

    def _of_private(self, kind: Kind) -> set[str]:
        """Names of what private servers have, in both views: looked for once."""
        found = self._private.get(kind)
        if found is None:
            views: tuple[Mapping[str, ToolRecord | ListedRecord], ...] = (
                getattr(self.old.catalog, kind),
                getattr(self.new.catalog, kind),
            )
            found = self._private[kind] = {
                name
                for records in views
                for name, record in records.items()
                if record.server in self.private
            }
        return found


def _part(catalog: Catalog, diff: Diff, private: frozenset[str]) -> Catalog:
    """That of a catalog which differs from another one, but for what is of private servers."""
    parts: dict[str, Any] = {}
    for kind in _KINDS:
        records: Mapping[str, ToolRecord | ListedRecord] = getattr(catalog, kind)
        changes: Change = getattr(diff, kind)
        found = ((name, records[name]) for name in changes.names() if name in records)
        parts[kind] = {name: record for name, record in found if record.server not in private}
    return replace(catalog, **parts)


def _listing(view: View, endpoint: Endpoint) -> object:
    """The values that decide which visible tools an endpoint lists."""
    settings = view.settings
    grouped = GROUPS in settings.experimental
    return _OF_LISTINGS(settings), grouped, view.set_spec(endpoint)


def _scope(view: View, endpoint: Endpoint) -> Scope:
    """The part of the catalog that the endpoint shows in a view; a set may have changed, or be
    gone.
    """
    now = view.endpoint(endpoint.kind, endpoint.name)
    return now.scope if now is not None else endpoint.scope
