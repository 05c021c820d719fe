"""The rules of `security.policies`, and their decisions.

Owns: rules, and their decisions on names and URIs. Knows no packs and no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from armory.domain.naming import Patterns, beginnings, expose_uri, fixed
from armory.domain.principal import Principal
from armory.domain.uris import has_steps, plain, read

T = TypeVar("T")
Applicable = tuple[int, ...]
"""Positions of the rules that speak about a caller."""
_DECISIONS_KEPT = 100_000
_KEPT_CHARS = 256
"""Longest name or URI whose decision is cached: callers may ask for one of millions of
characters."""
_URI_CHARS = 65_536
"""The longest URI that a rule allows: to find out what it means takes 20 ms, of 4 MiB a second."""
_CALLERS_KEPT = 10_000
_NAMES_CHARS = 8_000_000
"""Most characters of the cached callers' names together; a token may have hundreds of scopes."""
_PATTERNS_KEPT = 100_000
"""Most cached patterns: the rules for callers who are alike are kept once for each such group."""


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
        """Whether this rule applies to `principal`."""
        if not self.who:
            return True
        names = names_of(principal)
        return any(fnmatchcase(name, pattern) for pattern in self.who for name in names)


def names_of(principal: Principal) -> list[str]:
    """The names by which rules may refer to a principal."""
    names = [principal.subject, *principal.scopes]
    return names if principal.user is None else [*names, principal.user]


class _Combined(NamedTuple):
    """What several rules say together."""

    deny: Patterns
    allow: Patterns


class ByNames(Generic[T]):
    """Caches a value that is the same for all callers with the same names. It holds no principals,
    since they hold access tokens.

    Args:
        find: finds it out, by what `Rule.applies_to` looks at.
    """

    def __init__(self, find: Callable[[Principal], T]) -> None:
        self._find = find
        self._known: dict[tuple[str, str | None, frozenset[str]], T] = {}
        self._chars = 0

    def of(self, principal: Principal) -> T:
        """The value for a caller."""
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


def _applying(
    each: Sequence[Rule],
    of_names: Mapping[str, Sequence[int]],
    others: Sequence[int],
    principal: Principal,
) -> Applicable:
    found = {i for i in others if each[i].applies_to(principal)}
    for name in names_of(principal):
        found.update(of_names.get(name, ()))
    return tuple(sorted(found))


class Rules:
    """The rules, compiled to decisions: only what an applicable rule allows is allowed, and a
    `deny` of any applicable rule wins. Without rules, these methods are not to be called.

    Args:
        rules: as configured.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.each = tuple(rules)
        self._of_names: dict[str, list[int]] = {}
        self._others: list[int] = []  # for everybody, or for names of a pattern
        for position, rule in enumerate(self.each):
            if rule.who and all(fixed(name) == name for name in rule.who):
                for name in rule.who:
                    self._of_names.setdefault(name, []).append(position)
            else:
                self._others.append(position)
        self._applicable = ByNames(partial(_applying, self.each, self._of_names, self._others))
        self._patterns: dict[Applicable, _Combined] = {}
        self._latest: tuple[Applicable, _Combined] | None = None
        self._kept = 0
        self._decisions: dict[tuple[Applicable, str], bool] = {}
        self._allowing: dict[tuple[Applicable, str], bool] = {}

    def applicable(self, principal: Principal) -> Applicable:
        """The rules that apply to `principal`."""
        return self._applicable.of(principal) if self.each else ()

    def allow(self, principal: Principal, name: str) -> bool:
        """Whether the rules allow `principal` an exposed name or URI; cached."""
        key = (self.applicable(principal), name)
        known = self._decisions.get(key)
        if known is None:
            known = self.decide(key[0], name)
            if len(name) <= _KEPT_CHARS:
                if len(self._decisions) >= _DECISIONS_KEPT:
                    self._decisions.clear()
                self._decisions[key] = known
        return known

    def decide(self, applicable: Applicable, name: str) -> bool:
        """Whether these rules allow a name or URI; not cached."""
        said = self._combined(applicable)
        return not said.deny.match(name) and said.allow.match(name)

    def deny(self, applicable: Applicable, name: str) -> bool:
        """Whether an applicable rule denies a name or URI."""
        return self._combined(applicable).deny.match(name)

    def _combined(self, applicable: Applicable) -> _Combined:
        """What rules say together; mostly it is asked of the same ones again, and thousands of
        positions take long to compare.
        """
        latest = self._latest
        if latest is not None and latest[0] is applicable:
            return latest[1]
        found = self._patterns.get(applicable)
        if found is None:
            rules = [self.each[position] for position in applicable]
            deny = [pattern for rule in rules for pattern in rule.deny]
            allow = [pattern for rule in rules for pattern in rule.allow]
            found = _Combined(Patterns(deny), Patterns(allow))
            self._kept += len(deny) + len(allow) + 1
            if self._kept > _PATTERNS_KEPT:
                self._patterns, self._kept = {}, len(deny) + len(allow) + 1
            self._patterns[applicable] = found
        self._latest = applicable, found
        return found

    def may_allow(self, principal: Principal, server: str) -> bool:
        """Whether the rules could allow `principal` anything of `server`; denials are ignored."""
        key = (self.applicable(principal), server)
        known = self._allowing.get(key)
        if known is None:
            if len(self._allowing) >= _DECISIONS_KEPT:
                self._allowing.clear()
            known = self._allowing[key] = self._any_pattern(*key)
        return known

    def _any_pattern(self, applicable: Applicable, server: str) -> bool:
        """Whether a pattern of the given rules could allow anything of `server`."""
        allowed = (pattern for i in applicable for pattern in self.each[i].allow)
        begun = list(map(fixed, allowed))
        places = beginnings(server)
        return any(p.startswith(text) or text.startswith(p) for p in places for text in begun)

    def allow_however_spelt(self, applicable: Applicable, server: str, uri: str) -> bool:
        """Whether no other spelling of a URI of `server` is denied, or leads elsewhere; whether the
        given spelling is allowed is not checked. What denies `server+URI` denies it as well where
        it is exposed as `ui://server/...` or `skill://server/...`.
        """
        if len(uri) > _URI_CHARS or has_steps(uri):
            return False
        opened, simple = read(uri), plain(uri)
        if opened != uri and not self.decide(applicable, expose_uri(server, opened)):
            return False
        exposed, own = expose_uri(server, simple), f"{server}+{simple}"
        if simple != uri and self.deny(applicable, exposed):
            return False
        return own == exposed or not self.deny(applicable, own)

    def deny_open(self, applicable: Applicable, server: str, uri: str) -> bool:
        """Whether a URI template at `server` is denied in any spelling, and so every URI made from
        it; very long ones always are.
        """
        if len(uri) > _URI_CHARS:
            return True
        spelt = (uri, read(uri), plain(uri))
        exposed = (*(expose_uri(server, one) for one in spelt), f"{server}+{spelt[-1]}")
        return any(self.deny(applicable, one) for one in exposed)
