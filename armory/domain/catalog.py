"""The catalog: one immutable, numbered snapshot of everything the upstreams offer.

Owns: what upstreams listed, the rules for it, the snapshot of both, comparing snapshots. A snapshot
is swapped whole and never changed; `catalog_builder` makes them. Never imports anything but its
domain siblings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from types import MappingProxyType
from typing import Any

from armory.domain.groups import OwnGroup
from armory.domain.naming import Patterns
from armory.domain.tool import ListedRecord, ToolRecord, same_content

Definition = Mapping[str, Any]
LARGE, LARGE_BYTES = 250, 256 * 1024
"""More entries, or bytes of them, take over 6 ms to go through: they are not for the event loop."""


@dataclass(frozen=True, slots=True)
class ToolRules:
    """What the configuration says about one upstream's tools; keys are original-name globs.

    `deny` wins over `allow`; `rename` and `describe` replace name and description in the listing.
    """

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    describe: Mapping[str, str] = field(default_factory=dict[str, str])
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    category: str | None = None
    _allow: Patterns = field(init=False, repr=False, compare=False)
    _deny: Patterns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allow", Patterns(self.allow))
        object.__setattr__(self, "_deny", Patterns(self.deny))

    def includes(self, original: str) -> bool:
        """Whether the catalog takes this tool at all."""
        return not self._deny.match(original) and self._allow.match(original)

    def tags_of(self, original: str) -> tuple[str, ...]:
        """Configured tags of one tool, in order, without repeats."""
        found = [t for p, tags in self.tags.items() if fnmatchcase(original, p) for t in tags]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Dropped:
    """An entry of an upstream's list that was left out.

    Attributes:
        list: the method that listed it (`tools/list` ...); `initialize`: what it says of itself.
        entry: its name or URI, or its place, `#3`; cut.
        reason: why.
    """

    list: str
    entry: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServerLists:
    """What one upstream last answered: all pages of its lists, verbatim, plus who it is.

    Attributes:
        info: the upstream's `serverInfo`; empty while unknown.
        instructions: its `instructions`, or "".
        capabilities: as declared.
        groups: those that it has of its own, where they are served.
        cache: per list method, the upstream's own (`ttlMs`, `cacheScope`); absent on legacy.
        dropped: the first of what was left out because it cannot be handled.
        dropped_count: how much was left out in all.
        size_bytes: of the lists as they came; 0 where they did not come as JSON.
    """

    tools: Sequence[Definition] = ()
    prompts: Sequence[Definition] = ()
    resources: Sequence[Definition] = ()
    templates: Sequence[Definition] = ()
    info: Definition = field(default_factory=dict[str, Any])
    instructions: str = ""
    capabilities: Definition = field(default_factory=dict[str, Any])
    cache: Mapping[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    skills: Sequence[Definition] = ()
    groups: Sequence[OwnGroup] = ()
    dropped: Sequence[Dropped] = ()
    dropped_count: int = 0
    size_bytes: int = field(default=0, compare=False)

    @property
    def entries(self) -> int:
        """The number of entries in all lists except groups."""
        return sum(map(len, self.sequences()))

    def same(self, other: ServerLists) -> bool:
        """Whether two answers are equal. Compares entry by entry, because comparing whole lists in
        one step would block all other threads.
        """
        pairs = zip(self.sequences(), other.sequences(), strict=True)
        if not all(same_entries(mine, theirs) for mine, theirs in pairs):
            return False
        return replace(self, **_NO_ENTRIES) == replace(other, **_NO_ENTRIES)

    def sequences(self) -> tuple[Sequence[Definition], ...]:
        """The lists as a tuple."""
        return self.tools, self.prompts, self.resources, self.templates, self.skills


_NO_ENTRIES: dict[str, Any] = {
    "tools": (), "prompts": (), "resources": (), "templates": (), "skills": (),
}  # fmt: skip


def large(lists: Iterable[ServerLists]) -> bool:
    """Whether going through all lists takes long."""
    every = [*lists]
    if sum(one.entries for one in every) > LARGE:
        return True
    return sum(one.size_bytes for one in every) > LARGE_BYTES


def granted(lists: Iterable[ServerLists], method: str) -> tuple[int, str]:
    """The cache hints (`ttlMs`, `cacheScope`) for a list merged from several upstreams: the
    strictest of them.

    Args:
        lists: of the upstreams.
        method: that lists them.
    """
    least, scope = None, "public"
    for one in lists:
        ttl, own = one.cache.get(method, (0, "private"))
        least = ttl if least is None else min(least, ttl)
        scope = "private" if own != "public" else scope
    return least or 0, scope if least is not None else "private"


def same_entries(one: Sequence[Definition], other: Sequence[Definition]) -> bool:
    """Whether two lists are equal and in the same order; gives way to other threads meanwhile."""
    if len(one) != len(other):
        return False
    return all(map(same_content, one, other))


@dataclass(frozen=True, slots=True)
class Change:
    """What differs between two snapshots, by exposed name, each in the snapshot's order.

    No sets: those of 100,000 names keep all other threads waiting for 10 ms while they are joined,
    and again when they are freed.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def names(self) -> Iterator[str]:
        """Every name that the change touches, once."""
        return chain(self.added, self.removed, self.changed)


@dataclass(frozen=True, slots=True)
class Diff:
    """Changes per list between two snapshots."""

    tools: Change
    prompts: Change
    resources: Change
    templates: Change
    skills: Change = Change()

    def __bool__(self) -> bool:
        return any((self.tools, self.prompts, self.resources, self.templates, self.skills))


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """One snapshot. Order is stable: servers in configuration order, then the upstream's order.

    Attributes:
        version: grows by one with every snapshot that differs.
        servers: the lists that the snapshot was built from.
        tools, prompts, resources, templates: records by exposed name or URI.
        skills: records by exposed URI of their SKILL.md, searched as tools are.
    """

    version: int
    servers: Mapping[str, ServerLists]
    tools: Mapping[str, ToolRecord]
    prompts: Mapping[str, ListedRecord]
    resources: Mapping[str, ListedRecord]
    templates: Mapping[str, ListedRecord]
    skills: Mapping[str, ToolRecord] = field(default_factory=dict[str, ToolRecord])

    def diff(self, older: Catalog) -> Diff:
        """What changed since `older`."""
        return Diff(
            _compare(older.tools, self.tools),
            _compare(older.prompts, self.prompts),
            _compare(older.resources, self.resources),
            _compare(older.templates, self.templates),
            _compare(older.skills, self.skills),
        )


def _compare(
    old: Mapping[str, ToolRecord] | Mapping[str, ListedRecord],
    new: Mapping[str, ToolRecord] | Mapping[str, ListedRecord],
) -> Change:
    # most records are the very objects that they were: no field of them is looked at
    others = replaced(old, new)
    if others is not None:
        return Change(changed=tuple(name for name in others if old[name] != new[name]))
    # name by name: 100,000 at once keep all other threads waiting for 20 ms
    return Change(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(
            name
            for name, tool in new.items()
            if (was := old.get(name)) is not None and was is not tool and was != tool
        ),
    )


def same_order(one: Collection[str], other: Collection[str]) -> bool:
    """Whether two collections have the same names in the same order; gives way to other threads
    meanwhile, which comparing lists of them does not.
    """
    if len(one) != len(other):
        return False
    for mine, theirs in zip(one, other, strict=True):  # noqa: SIM110 `all` of a `map` gives no way
        if mine != theirs:
            return False
    return True


def replaced(
    old: Mapping[str, ToolRecord] | Mapping[str, ListedRecord],
    new: Mapping[str, ToolRecord] | Mapping[str, ListedRecord],
) -> list[str] | None:
    """The names whose record is a different object, in order; None: the names differ, or their
    order.
    """
    if not same_order(old, new):
        return None
    pairs = zip(new.items(), old.values(), strict=True)
    return [name for (name, record), was in pairs if record is not was]


EMPTY = Catalog(0, *(MappingProxyType[str, Any]({}) for _ in range(5)))
