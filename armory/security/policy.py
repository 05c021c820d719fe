"""Who may see and call what: one decision for both, taken before anything is ranked.

Owns: policy rules, endpoint scopes, and the visible sets made of them. Never imports retrieval,
upstreams or a transport.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from armory.domain.catalog import Catalog
from armory.domain.principal import Principal
from armory.domain.query import VisibleSet

Profile = tuple[int, ...]
_DECISIONS_KEPT = 100_000
_PRINCIPALS_KEPT = 10_000


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


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the catalogue that an endpoint shows: whole servers plus single tools.

    Attributes:
        key: unique name of the scope; scopes with equal keys are equal.
        servers: server keys; None together with `tools` None means everything.
        tools: glob patterns over exposed tool names, beside those of `servers`.
    """

    key: str = "all"
    servers: frozenset[str] | None = None
    tools: tuple[str, ...] | None = None

    @property
    def everything(self) -> bool:
        """Whether the scope leaves nothing out."""
        return self.servers is None and self.tools is None

    def has_server(self, server: str) -> bool:
        """Whether everything of `server` is in scope."""
        return self.everything or (self.servers is not None and server in self.servers)

    def has_tool(self, server: str, name: str) -> bool:
        """Whether the tool `name` of `server` is in scope."""
        if self.has_server(server):
            return True
        return self.tools is not None and any(fnmatchcase(name, p) for p in self.tools)


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """What one profile sees at one endpoint. One object per (snapshot, profile, scope).

    Attributes:
        tools: exposed tool names, as retrieval takes them.
        prompts, resources, templates: exposed names and URIs.
        version: version of the snapshot.
    """

    tools: VisibleSet
    prompts: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()
    version: int = 0


@dataclass(slots=True)
class _Cache:
    version: int = -1
    catalog: Catalog | None = None
    sights: dict[tuple[Profile, str], Sight] = field(
        default_factory=dict[tuple[Profile, str], Sight]
    )


class Policy:
    """The rules, compiled to decisions.

    Without rules everything is allowed; with rules, what no applicable rule allows is denied, and
    a `deny` of any applicable rule wins.
    """

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self._profiles: dict[Principal, Profile] = {}
        self._decisions: dict[tuple[Profile, str], bool] = {}
        self._cache = _Cache()

    @property
    def restricts(self) -> bool:
        """Whether there is any rule, so that principals may see different things."""
        return bool(self._rules)

    def profile(self, principal: Principal) -> Profile:
        """The positions of the rules that apply: principals with equal profiles see the same."""
        if not self._rules:
            return ()
        known = self._profiles.get(principal)
        if known is None:
            if len(self._profiles) >= _PRINCIPALS_KEPT:
                self._profiles.clear()
            known = tuple(i for i, rule in enumerate(self._rules) if rule.applies_to(principal))
            self._profiles[principal] = known
        return known

    def allows(self, principal: Principal, name: str) -> bool:
        """Whether `principal` may see and use the exposed name or URI `name`."""
        if not self._rules:
            return True
        key = (self.profile(principal), name)
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= _DECISIONS_KEPT:
                self._decisions.clear()
            known = self._decide(key[0], name)
            self._decisions[key] = known
        return known

    def visible(
        self, catalog: Catalog, principal: Principal, scope: Scope = EVERYTHING
    ) -> VisibleSet:
        """The tools that `principal` may see; one object per snapshot, profile and scope."""
        return self.sight(catalog, principal, scope).tools

    def sight(self, catalog: Catalog, principal: Principal, scope: Scope = EVERYTHING) -> Sight:
        """Everything that `principal` may see; one object per snapshot, profile and scope."""
        profile = self.profile(principal)
        cache = self._cache
        if cache.catalog is not catalog:
            if catalog.version < cache.version:  # a request that began before the last swap
                return self._look(catalog, profile, scope)
            cache = self._cache = _Cache(catalog.version, catalog)
        found = cache.sights.get((profile, scope.key))
        if found is None:
            found = self._look(catalog, profile, scope)
            cache.sights[profile, scope.key] = found
        return found

    def _decide(self, profile: Profile, name: str) -> bool:
        allowed = False
        for position in profile:
            rule = self._rules[position]
            if any(fnmatchcase(name, pattern) for pattern in rule.deny):
                return False
            allowed = allowed or any(fnmatchcase(name, pattern) for pattern in rule.allow)
        return allowed

    def _permitted(self, profile: Profile, names: Iterable[str]) -> frozenset[str]:
        if not self._rules:
            return frozenset(names)
        return frozenset(name for name in names if self._decide(profile, name))

    def _look(self, catalog: Catalog, profile: Profile, scope: Scope) -> Sight:
        def of_servers(records: Mapping[str, object]) -> Iterable[str]:
            return (n for n, r in records.items() if scope.has_server(r.server))  # pyright: ignore

        tools = (n for n, tool in catalog.tools.items() if scope.has_tool(tool.server, n))
        return Sight(
            tools=VisibleSet(
                self._permitted(profile, tools),
                f"{catalog.version}/{scope.key}/{','.join(map(str, profile))}",
            ),
            prompts=self._permitted(profile, of_servers(catalog.prompts)),
            resources=self._permitted(profile, of_servers(catalog.resources)),
            templates=self._permitted(profile, of_servers(catalog.templates)),
            version=catalog.version,
        )
