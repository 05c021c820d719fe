"""Authorization: who may see and call what, decided before anything is ranked.

Owns: what principals may see and use of a snapshot, by rules and packs. Never imports retrieval,
upstreams or a transport.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from armory.domain.catalog import EMPTY, Catalog
from armory.domain.naming import expose_uri
from armory.domain.principal import Principal
from armory.domain.query import VisibleSet
from armory.domain.tool import ListedRecord, ToolRecord, names_by_server
from armory.domain.visibility import EVERYTHING, Kind, Scope, VisibleCatalog
from armory.security.packs import NamedPack, Packs, PackView
from armory.security.rules import Applicable, Rule, Rules

Profile = tuple[Applicable, str]
_VISIBLE_KEPT = 4_096
_PREPARED = 16
"""Profiles for which it is worked out beforehand what they see of a large snapshot."""
_Key = tuple[Profile, str]
_Asker = tuple[Scope, PackView | None]


@dataclass(slots=True)
class Decisions:
    """Cached decisions about one snapshot, or a part of one."""

    catalog: Catalog
    by_server: dict[str, list[str]] | None = None
    """Made for the first caller with packs: it takes a look at every tool."""
    visible: dict[_Key, VisibleCatalog] = field(default_factory=dict[_Key, VisibleCatalog])
    """The one that was asked for last is the last."""
    askers: dict[_Key, _Asker] = field(default_factory=dict[_Key, _Asker])
    """What each was made for beside the rules."""

    def names_of(self, server: str) -> Sequence[str]:
        """The names of a server's tools."""
        if self.by_server is None:
            self.by_server = names_by_server(self.catalog.tools.values())
        return self.by_server.get(server, ())


class Policy:
    """Applies rules and packs to snapshots.

    Without rules everything is allowed. With rules, only what an applicable rule allows is allowed,
    and a `deny` of any applicable rule wins. Packs further narrow what a user sees and calls.

    Args:
        rules: as configured.
        packs: the active packs of users; None: packs narrow nothing. Callers without a user are
            never narrowed.
    """

    def __init__(self, rules: Sequence[Rule] = (), packs: Packs | None = None) -> None:
        self._rules = Rules(rules)
        self._ruled = bool(rules)
        self._packs = packs
        self._cache = Decisions(EMPTY)
        self._ready = Decisions(EMPTY)

    def with_own_caches(self) -> Policy:
        """A policy with the same rules and its own caches, for another snapshot beside the present
        one.
        """
        return Policy(self._rules.each, self._packs)

    @property
    def restricts(self) -> bool:
        """Whether principals may see different things."""
        return self._ruled or self._packs is not None

    @property
    def has_rules(self) -> bool:
        """Whether rules may deny anything; packs do not count."""
        return self._ruled

    def profile(self, principal: Principal, *, packs: bool = True) -> Profile:
        """The applicable rules and the packs: principals with equal profiles see the same."""
        return _profile(self._rules.applicable(principal), self._view(principal, packs=packs))

    def _view(self, principal: Principal, *, packs: bool) -> PackView | None:
        if self._packs is None or principal.user is None or not packs:
            return None
        return self._packs.view_of(principal.user)

    def packs_of(self, principal: Principal) -> Sequence[NamedPack]:
        """The packs that `principal` has active."""
        if self._packs is None or principal.user is None:
            return ()
        return self._packs.packs_of(principal.user)

    def allows(self, principal: Principal, name: str, *, packs: bool = True) -> bool:
        """Whether `principal` may see and use the exposed name or URI `name`.

        `packs=False` asks the rules alone.
        """
        if self._packs is not None:
            view = self._view(principal, packs=packs)
            if view is not None and not view.includes(name):
                return False
        return not self._ruled or self._rules.allow(principal, name)

    def allows_listed(
        self, principal: Principal, record: ToolRecord | ListedRecord, *, packs: bool = True
    ) -> bool:
        """Whether `principal` may see and use a tool or a prompt. Packs include single tools, but
        prompts only with their server. `packs=False` checks the rules alone.
        """
        if self._packs is not None:
            view = self._view(principal, packs=packs)
            if view is not None and not view.includes_listed(record):
                return False
        return not self._ruled or self._rules.allow(principal, record.name)

    def concerns(self, principal: Principal, server: str, *, packs: bool = True) -> bool:
        """Whether `principal` may see anything of `server`, whatever it lists; not if all its tools
        and prompts are denied. `packs=False` checks the rules alone.
        """
        if not self.may_allow(principal, server, packs=packs):
            return False
        return not self._rules.deny(self._rules.applicable(principal), f"{server}__")

    def may_allow(self, principal: Principal, server: str, *, packs: bool = True) -> bool:
        """Whether packs and rules could allow `principal` anything of `server`, whatever it lists;
        denials are ignored. `packs=False` checks the rules alone.
        """
        view = self._view(principal, packs=packs)
        if view is not None and not view.has_any_of(server):
            return False
        return not self._ruled or self._rules.may_allow(principal, server)

    def allows_uri(self, principal: Principal, server: str, uri: str) -> bool:
        """Whether `principal` may use the resource with the original URI `uri` of `server`.

        A server may open something else than what is written: what a rule denies is denied in every
        spelling, what may lead elsewhere by `..`, or is very long, no rule allows, and of a URI is
        allowed what is allowed without the parts that nobody reads.
        """
        spelt = self._however_spelt(self._rules.applicable(principal), server, uri)
        return spelt and self.allows(principal, expose_uri(server, uri))

    def _however_spelt(self, applicable: Applicable, server: str, uri: str) -> bool:
        return not self._ruled or self._rules.allow_however_spelt(applicable, server, uri)

    def bars_uri(self, principal: Principal, server: str, uri: str) -> bool:
        """Whether a rule denies a URI template at `server`, or any URI that can be made from it: in
        any spelling, and always if it is very long.
        """
        return self._rules.deny_open(self._rules.applicable(principal), server, uri)

    def visible_tools(
        self, catalog: Catalog, principal: Principal, *, packs: bool = True
    ) -> VisibleSet:
        """The tools that `principal` may see; one object per snapshot and profile."""
        return self.visible_catalog(catalog, principal, packs=packs).tools

    def visible_catalog(
        self,
        catalog: Catalog,
        principal: Principal,
        scope: Scope = EVERYTHING,
        *,
        packs: bool = True,
    ) -> VisibleCatalog:
        """Everything that `principal` may see; one object per snapshot, profile and scope.

        `packs=False` leaves the user's packs out: the rules alone.
        """
        view = self._view(principal, packs=packs)
        profile = _profile(self._rules.applicable(principal), view)
        cache = self._cache
        if cache.catalog is not catalog:
            if catalog.version < cache.catalog.version:  # a request begun before the last swap
                return self._make(Decisions(catalog), profile, scope, view)
            cache = self.serve(catalog)
        visible = cache.visible.pop((profile, scope.key), None)
        if visible is None:
            visible = self._make(cache, profile, scope, view)
            if len(cache.visible) >= _VISIBLE_KEPT:  # the least recently used one goes
                oldest = next(iter(cache.visible))
                del cache.visible[oldest], cache.askers[oldest]
            cache.askers[profile, scope.key] = scope, view
        cache.visible[profile, scope.key] = visible
        return visible

    def sees_any(self, catalog: Catalog, principal: Principal, scope: Scope) -> bool:
        """Whether `principal` may see anything of a snapshot within a scope: of each of many scopes
        that is known sooner than what it sees there.
        """
        visible, tools = self.visible_catalog(catalog, principal), catalog.tools
        if any(scope.has_tool(tools[name].server, name) for name in visible.tools.names):
            return True
        others = (
            (catalog.prompts, visible.prompts),
            (catalog.resources, visible.resources),
            (catalog.templates, visible.templates),
            (catalog.skills, visible.skills),
        )
        return any(scope.has_server(of[name].server) for of, names in others for name in names)

    def kinds_seen(
        self, part: Decisions, principal: Principal, scope: Scope = EVERYTHING
    ) -> frozenset[Kind]:
        """The kinds of which `principal` sees anything in a part of a snapshot: known with the
        first of each, be it one of 100,000.
        """
        view = self._view(principal, packs=True)
        profile = _profile(self._rules.applicable(principal), view)
        visible = self._visible(part, profile, scope, view)
        return frozenset(kind for kind, names in visible.items() if next(names, None) is not None)

    def prepare(self, catalog: Catalog) -> None:
        """Compute, in any thread, what recent callers will see of another snapshot: for each of
        them that takes 25 ms with 100,000 tools.
        """
        ready, asked = Decisions(catalog), self._cache
        askers = asked.askers.copy()
        for key in list(asked.visible)[-_PREPARED:]:
            if key in askers:
                ready.visible[key] = self._make(ready, key[0], *askers[key])
                ready.askers[key] = askers[key]
        self._ready = ready

    def serve(self, catalog: Catalog) -> Decisions:
        """Switch to this snapshot, and drop the cache of the one before."""
        if self._cache.catalog is not catalog:
            ready, self._ready = self._ready, Decisions(EMPTY)
            self._cache = ready if ready.catalog is catalog else Decisions(catalog)
        return self._cache

    def _permitted(self, applicable: Applicable, names: Iterable[str]) -> Iterator[str]:
        if not self._ruled:  # one by one: of 100,000 at once all threads would wait for 15 ms
            return (name for name in names)
        return (name for name in names if self._rules.decide(applicable, name))

    def _make(
        self, cache: Decisions, profile: Profile, scope: Scope, view: PackView | None
    ) -> VisibleCatalog:
        names = self._visible(cache, profile, scope, view)
        rules = ",".join(map(str, profile[0]))
        return VisibleCatalog(
            tools=VisibleSet(
                frozenset(names["tools"]),
                f"{cache.catalog.version}/{scope.key}/{rules}/{profile[1]}",
            ),
            prompts=frozenset(names["prompts"]),
            resources=frozenset(names["resources"]),
            templates=frozenset(names["templates"]),
            skills=frozenset(names["skills"]),
        )

    def _visible(
        self, cache: Decisions, profile: Profile, scope: Scope, view: PackView | None
    ) -> dict[Kind, Iterator[str]]:
        """The names that may be seen, of each kind, found one by one."""
        catalog, applicable = cache.catalog, profile[0]

        def of_servers(
            records: Mapping[str, ListedRecord | ToolRecord], *, uris: bool = False
        ) -> Iterable[str]:
            return (
                name
                for name, record in records.items()
                if scope.has_server(record.server)
                and (view is None or record.server in view.servers)
                and (
                    not uris or self._however_spelt(applicable, record.server, record.original_name)
                )
            )

        tools = catalog.tools
        names: Iterable[str] = tools
        if view is not None:  # what a user has is small beside the catalog
            whole = (n for s in view.servers for n in cache.names_of(s))
            names = {*whole, *(n for n in view.tools if n in tools)}
        if not scope.everything:
            names = (n for n in names if scope.has_tool(tools[n].server, n))
        found: dict[Kind, Iterable[str]] = {
            "tools": names,
            "prompts": of_servers(catalog.prompts),
            "resources": of_servers(catalog.resources, uris=True),
            "templates": of_servers(catalog.templates, uris=True),
            "skills": of_servers(catalog.skills, uris=True),
        }
        return {kind: self._permitted(applicable, some) for kind, some in found.items()}


def _profile(applicable: Applicable, view: PackView | None) -> Profile:
    return applicable, "" if view is None else view.key
