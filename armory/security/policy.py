"""Authorization: who may see and call what, decided once, before anything is ranked.

Owns: policy rules, and what principals see of a snapshot by them. Never imports retrieval,
upstreams or a transport.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from armory.domain.catalog import EMPTY, Catalog
from armory.domain.naming import beginnings, expose_uri
from armory.domain.principal import Principal
from armory.domain.query import VisibleSet
from armory.domain.tool import ListedRecord, ToolRecord, names_by_server
from armory.domain.uris import has_steps, plain, read
from armory.domain.visibility import EVERYTHING, Scope, VisibleCatalog
from armory.security.packs import NamedPack, Packs, PackView

T = TypeVar("T")
Applicable = tuple[int, ...]
"""Positions of the rules that speak about a caller."""
Profile = tuple[Applicable, str]
_DECISIONS_KEPT = 100_000
_KEPT_CHARS = 256
"""Of a name or URI whose decision is kept: what callers ask for may have millions."""
_URI_CHARS = 65_536
"""The longest URI that a rule allows: to find out what it means takes 20 ms, of 4 MiB a second."""
_CALLERS_KEPT = 10_000
_NAMES_CHARS = 8_000_000
"""Of their names in all; a token may have hundreds of scopes."""
_VISIBLE_KEPT = 4_096
_PREPARED = 16
"""Of so many profiles it is found out beforehand what they see of a large snapshot."""
_FIXED = re.compile(r"[^*?\[]*")
"""The part of a glob pattern that stands for itself."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of `security.policies`.

    Attributes:
        who: glob patterns over scopes, user and subject; empty means everybody.
        allow: glob patterns over exposed names (tools, prompts) and exposed URIs.
        deny: likewise; wins over every `allow` of every rule that applies.
    """

    who: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def applies_to(self, principal: Principal) -> bool:
        """Whether this rule speaks about `principal`."""
        if not self.who:
            return True
        names = [principal.subject, *principal.scopes]
        if principal.user is not None:
            names.append(principal.user)
        return any(fnmatchcase(name, pattern) for pattern in self.who for name in names)


class ByNames(Generic[T]):
    """What is the same for all callers with the same names, found out once. It keeps no principal,
    since with that would go the tokens that it came with.

    Args:
        find: finds it out, by what `Rule.applies_to` looks at.
    """

    def __init__(self, find: Callable[[Principal], T]) -> None:
        self._find = find
        self._known: dict[tuple[str, str | None, frozenset[str]], T] = {}
        self._chars = 0

    def of(self, principal: Principal) -> T:
        """What was found out about a caller."""
        names = subject, user, scopes = principal.subject, principal.user, principal.scopes
        try:
            return self._known[names]
        except KeyError:
            found = self._find(principal)
        chars = len(subject) + len(user or "") + sum(map(len, scopes))
        if len(self._known) >= _CALLERS_KEPT or self._chars + chars > _NAMES_CHARS:
            self._known, self._chars = {}, 0
        self._known[names] = found
        self._chars += chars
        return found


_Key = tuple[Profile, str]
_Asker = tuple[Scope, PackView | None]


@dataclass(slots=True)
class _Cache:
    """What was found out about one snapshot."""

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
    """The rules, compiled to decisions.

    Without rules everything is allowed; with rules, what no applicable rule allows is denied, and
    a `deny` of any applicable rule wins. Packs narrow further what a user sees and calls.

    Args:
        rules: as configured.
        packs: the active packs of users; None: packs narrow nothing. Callers without a user are
            never narrowed.
    """

    def __init__(self, rules: Sequence[Rule] = (), packs: Packs | None = None) -> None:
        self._rules = tuple(rules)
        self._packs = packs
        self._applicable = ByNames(self._applying)
        self._decisions: dict[tuple[Applicable, str], bool] = {}
        self._allowing: dict[tuple[Applicable, str], bool] = {}
        self._cache = _Cache(EMPTY)
        self._ready = _Cache(EMPTY)

    def with_own_caches(self) -> Policy:
        """The same rules, with caches of their own: for another snapshot beside the present one."""
        return Policy(self._rules, self._packs)

    @property
    def restricts(self) -> bool:
        """Whether principals may see different things."""
        return bool(self._rules) or self._packs is not None

    def profile(self, principal: Principal, *, packs: bool = True) -> Profile:
        """Rules that apply, and the packs: principals with equal profiles see the same."""
        return _profile(self._rules_for(principal), self._view(principal, packs))

    def _view(self, principal: Principal, packs: bool) -> PackView | None:
        if self._packs is None or principal.user is None or not packs:
            return None
        return self._packs.view_of(principal.user)

    def packs_of(self, principal: Principal) -> Sequence[NamedPack]:
        """The packs that `principal` has active."""
        if self._packs is None or principal.user is None:
            return ()
        return self._packs.packs_of(principal.user)

    def _rules_for(self, principal: Principal) -> Applicable:
        return self._applicable.of(principal) if self._rules else ()

    def _applying(self, principal: Principal) -> Applicable:
        return tuple(i for i, rule in enumerate(self._rules) if rule.applies_to(principal))

    def allows(
        self, principal: Principal, name: str, *, packs: bool = True, server: str | None = None
    ) -> bool:
        """Whether `principal` may see and use the exposed name or URI `name`.

        `packs=False` asks the rules alone; `server` as of `PackView.includes`.
        """
        if self._packs is not None:
            view = self._view(principal, packs)
            if view is not None and not view.includes(name, server):
                return False
        if not self._rules:
            return True
        key = (self._rules_for(principal), name)
        known = self._decisions.get(key)
        if known is None:
            known = self._decide(key[0], name)
            if len(name) <= _KEPT_CHARS:
                if len(self._decisions) >= _DECISIONS_KEPT:
                    self._decisions.clear()
                self._decisions[key] = known
        return known

    def concerns(self, principal: Principal, server: str, *, packs: bool = True) -> bool:
        """Whether `principal` may see anything of `server`, whatever that has by now; not where all
        its tools and prompts are denied. `packs=False` asks the rules alone.
        """
        if not self.may_allow(principal, server, packs=packs):
            return False
        return not self._denies(self._rules_for(principal), f"{server}__")

    def may_allow(self, principal: Principal, server: str, *, packs: bool = True) -> bool:
        """Whether packs and rules could allow `principal` something of `server`, whatever that has
        by now; what they deny is not looked at. `packs=False` asks the rules alone.
        """
        view = self._view(principal, packs)
        if view is not None and not view.has_any_of(server):
            return False
        if not self._rules:
            return True
        key = (self._rules_for(principal), server)
        known = self._allowing.get(key)
        if known is None:
            if len(self._allowing) >= _DECISIONS_KEPT:
                self._allowing.clear()
            known = self._allowing[key] = self._any_pattern(*key)
        return known

    def _any_pattern(self, applicable: Applicable, server: str) -> bool:
        """Whether what one of the rules allows may be of `server`."""
        allowed = (pattern for i in applicable for pattern in self._rules[i].allow)
        begun = [match[0] for pattern in allowed if (match := _FIXED.match(pattern))]
        places = beginnings(server)
        return any(p.startswith(text) or text.startswith(p) for p in places for text in begun)

    def allows_uri(self, principal: Principal, server: str, uri: str) -> bool:
        """Whether `principal` may use the resource with the original URI `uri` of `server`.

        A server may open something else than what is written: what a rule denies is denied in every
        spelling, what may lead elsewhere by `..`, or is very long, no rule allows, and of a URI is
        allowed what is allowed without the parts that nobody reads.
        """
        applicable, exposed = self._rules_for(principal), expose_uri(server, uri)
        return self._however_spelt(applicable, server, uri) and self.allows(principal, exposed)

    def _however_spelt(self, applicable: Applicable, server: str, uri: str) -> bool:
        if not self._rules:
            return True
        if len(uri) > _URI_CHARS or has_steps(uri):
            return False
        opened, simple = read(uri), plain(uri)
        if opened != uri and not self._decide(applicable, expose_uri(server, opened)):
            return False
        return simple == uri or not self._denies(applicable, expose_uri(server, simple))

    def _denies(self, applicable: Applicable, name: str) -> bool:
        rules = (self._rules[position] for position in applicable)
        return any(fnmatchcase(name, pattern) for rule in rules for pattern in rule.deny)

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
        view = self._view(principal, packs)
        profile = _profile(self._rules_for(principal), view)
        cache = self._cache
        if cache.catalog is not catalog:
            if catalog.version < cache.catalog.version:  # a request begun before the last swap
                return self._make(_Cache(catalog), profile, scope, view)
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

    def prepare(self, catalog: Catalog) -> None:
        """Find out what those who asked last will see of another snapshot, in any thread: for each
        of them that takes 25 ms with 100,000 tools.
        """
        ready, asked = _Cache(catalog), self._cache
        askers = asked.askers.copy()
        for key in list(asked.visible)[-_PREPARED:]:
            if key in askers:
                ready.visible[key] = self._make(ready, key[0], *askers[key])
                ready.askers[key] = askers[key]
        self._ready = ready

    def serve(self, catalog: Catalog) -> _Cache:
        """From now on it is asked of this snapshot; what it kept of the one before goes."""
        if self._cache.catalog is not catalog:
            ready, self._ready = self._ready, _Cache(EMPTY)
            self._cache = ready if ready.catalog is catalog else _Cache(catalog)
        return self._cache

    def _decide(self, applicable: Applicable, name: str) -> bool:
        allowed = False
        for position in applicable:
            rule = self._rules[position]
            if any(fnmatchcase(name, pattern) for pattern in rule.deny):
                return False
            allowed = allowed or any(fnmatchcase(name, pattern) for pattern in rule.allow)
        return allowed

    def _permitted(self, applicable: Applicable, names: Iterable[str]) -> frozenset[str]:
        if not self._rules:  # one by one: of 100,000 at once all threads would wait for 15 ms
            return frozenset(name for name in names)
        return frozenset(name for name in names if self._decide(applicable, name))

    def _make(
        self, cache: _Cache, profile: Profile, scope: Scope, view: PackView | None
    ) -> VisibleCatalog:
        catalog = cache.catalog
        applicable, packs = profile

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
        return VisibleCatalog(
            tools=VisibleSet(
                self._permitted(applicable, names),
                f"{catalog.version}/{scope.key}/{','.join(map(str, applicable))}/{packs}",
            ),
            prompts=self._permitted(applicable, of_servers(catalog.prompts)),
            resources=self._permitted(applicable, of_servers(catalog.resources, uris=True)),
            templates=self._permitted(applicable, of_servers(catalog.templates, uris=True)),
            skills=self._permitted(applicable, of_servers(catalog.skills, uris=True)),
        )


def _profile(applicable: Applicable, view: PackView | None) -> Profile:
    return applicable, "" if view is None else view.key
