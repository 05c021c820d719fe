"""The catalog: one immutable, numbered snapshot of everything the upstreams offer.

Owns: merging upstream lists into a snapshot, resolving exposed names, comparing snapshots. A
snapshot is swapped whole and never changed. Never imports anything but its domain siblings.
"""

from __future__ import annotations

import marshal
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from armory.domain.groups import OwnGroup
from armory.domain.naming import expose_names, expose_uri
from armory.domain.tool import MAX_ABOUT_CHARS, ListedRecord, ToolRecord, fingerprint, keywords_of

Definition = Mapping[str, Any]


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

    def includes(self, original: str) -> bool:
        """Whether the catalog takes this tool at all."""
        if not self.deny and "*" in self.allow:
            return True
        if any(fnmatchcase(original, pattern) for pattern in self.deny):
            return False
        return any(fnmatchcase(original, pattern) for pattern in self.allow)

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


@dataclass(frozen=True, slots=True)
class Change:
    """What differs between two snapshots, by exposed name."""

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @property
    def names(self) -> frozenset[str]:
        """Every name that the change touches."""
        return self.added | self.removed | self.changed


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
class ServerPart:
    """What one upstream's lists gave under its rules.

    Attributes:
        lists, rule: what it was made of.
        problems: met on the way, one line each.
    """

    lists: ServerLists
    rule: ToolRules
    tools: Sequence[ToolRecord]
    prompts: Sequence[ListedRecord]
    resources: Sequence[ListedRecord]
    templates: Sequence[ListedRecord]
    skills: Sequence[ToolRecord]
    problems: Sequence[str]


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
        return Change(changed=frozenset(name for name in others if old[name] != new[name]))
    kept = old.keys() & new.keys()
    return Change(
        added=frozenset(new.keys() - old.keys()),
        removed=frozenset(old.keys() - new.keys()),
        changed=frozenset(
            name for name in kept if old[name] is not new[name] and old[name] != new[name]
        ),
    )


def replaced(
    old: Mapping[str, ToolRecord] | Mapping[str, ListedRecord],
    new: Mapping[str, ToolRecord] | Mapping[str, ListedRecord],
) -> list[str] | None:
    """The names whose record is another object, in order; None: not the same names in order."""
    if len(old) != len(new) or not all(map(operator.eq, old, new)):
        return None
    pairs = zip(new.items(), old.values(), strict=True)
    return [name for (name, record), was in pairs if record is not was]


EMPTY = Catalog(0, *(MappingProxyType[str, Any]({}) for _ in range(5)))


class CatalogBuilder:
    """Makes one snapshot after the other.

    A server whose lists and rules are the very ones of last time is not gone through again.
    """

    def __init__(self) -> None:
        self._parts: dict[str, ServerPart] = {}

    def build(
        self,
        servers: Mapping[str, ServerLists],
        rules: Mapping[str, ToolRules] | None = None,
        previous: Catalog = EMPTY,
    ) -> tuple[Catalog, list[str]]:
        """A snapshot of `servers` and the problems met on the way (one line each, for the log).

        A malformed entry (not an object, no usable name) or a repeated one is left out and
        reported; it never costs its neighbours. Equal content gives back `previous` itself.
        """
        parts: dict[str, ServerPart] = {}
        for server, lists in servers.items():
            rule = (rules or {}).get(server, ToolRules())
            part = self._parts.get(server)
            if part is None or part.lists is not lists or part.rule != rule:
                part = _part(server, lists, rule, () if part is None else part.tools)
            parts[server] = part
        self._parts = parts
        made = parts.values()
        catalog = Catalog(
            previous.version + 1,
            dict(servers),
            {record.name: record for part in made for record in part.tools},
            {record.name: record for part in made for record in part.prompts},
            {record.name: record for part in made for record in part.resources},
            {record.name: record for part in made for record in part.templates},
            {record.name: record for part in made for record in part.skills},
        )
        problems = [problem for part in made for problem in part.problems]
        same = not catalog.diff(previous) and list(catalog.tools) == list(previous.tools)
        if same and _faces(previous.servers) == _faces(servers):
            return previous, problems
        return catalog, problems


def build_catalog(
    servers: Mapping[str, ServerLists],
    rules: Mapping[str, ToolRules] | None = None,
    previous: Catalog = EMPTY,
) -> tuple[Catalog, list[str]]:
    """One snapshot by itself; see `CatalogBuilder.build`."""
    return CatalogBuilder().build(servers, rules, previous)


def _part(
    server: str, lists: ServerLists, rule: ToolRules, before: Sequence[ToolRecord]
) -> ServerPart:
    """What one server's lists give; a tool that is as it was `before` is the very record."""
    problems: list[str] = []
    known = {tool.original_name: tool for tool in before}
    tools = list(_tools_of(server, lists, rule, known, problems))
    named = _keyed(server, "prompt", lists.prompts, "name", problems)
    exposed = expose_names(server, named)
    prompts = [_listed(server, name, exposed[name], entry) for name, entry in named.items()]
    resources, templates = (
        [
            _listed(server, original, expose_uri(server, original), definition)
            for original, definition in _keyed(server, kind, entries, key, problems).items()
        ]
        for kind, entries, key in (
            ("resource", lists.resources, "uri"),
            ("resource template", lists.templates, "uriTemplate"),
        )
    )
    skills = list(_skills_of(server, lists, rule, problems))
    return ServerPart(lists, rule, tools, prompts, resources, templates, skills, problems)


def _faces(servers: Mapping[str, ServerLists]) -> list[object]:
    return [
        (key, s.info, s.instructions, s.capabilities, s.cache, s.groups)
        for key, s in servers.items()
    ]


def _keyed(
    server: str, kind: str, entries: Iterable[object], key: str, problems: list[str]
) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for position, entry in enumerate(entries):
        name = entry.get(key) if isinstance(entry, dict) else None  # pyright: ignore
        if not isinstance(name, str) or not name:
            problems.append(f"{server}: {kind} #{position} left out: it has no usable {key!r}")
        elif name in found:
            problems.append(f"{server}: {kind} {name!r} listed twice; the first one stays")
        else:
            found[name] = entry  # pyright: ignore[reportArgumentType]
    return found


def _listed(server: str, original: str, name: str, definition: Definition) -> ListedRecord:
    return ListedRecord(name, server, original, definition, fingerprint(definition))


def _skills_of(
    server: str, lists: ServerLists, rule: ToolRules, problems: list[str]
) -> Iterable[ToolRecord]:
    for original, entry in _keyed(server, "skill", lists.skills, "uri", problems).items():
        yield ToolRecord(
            name=expose_uri(server, original),
            server=server,
            original_name=original,
            definition=entry,
            fingerprint=fingerprint(entry),
            description=entry["frontmatter"]["description"],
            server_title=_title(lists),
            category=rule.category,
            server_about=_about(lists),
        )


def _title(lists: ServerLists) -> str:
    title = lists.info.get("title") or lists.info.get("name")
    return title if isinstance(title, str) else ""


def _about(lists: ServerLists) -> str:
    told = (lists.info.get("description"), lists.instructions)
    about = " ".join(text for text in told if isinstance(text, str) and text)
    # On a line of their own: a sentence that is not indexed does not take them with it.
    return "\n".join(filter(None, (keywords_of(lists.info), about)))[:MAX_ABOUT_CHARS]


def _tools_of(
    server: str,
    lists: ServerLists,
    rule: ToolRules,
    known: Mapping[str, ToolRecord],
    problems: list[str],
) -> Iterable[ToolRecord]:
    named = _keyed(server, "tool", lists.tools, "name", problems)
    named = {original: entry for original, entry in named.items() if rule.includes(original)}
    exposed = expose_names(server, (rule.rename.get(original, original) for original in named))
    title, about = _title(lists), _about(lists)
    taken: set[str] = set()
    for original, definition in named.items():
        name = exposed[rule.rename.get(original, original)]
        if name in taken:
            problems.append(f"{server}: tool {original!r} left out: {name!r} is taken by a rename")
            continue
        taken.add(name)
        before = known.get(original)
        digest = (
            before.fingerprint
            if before is not None and _alike(before.definition, definition)
            else fingerprint(definition)
        )
        description = rule.describe.get(original, definition.get("description"))
        record = ToolRecord(
            name=name,
            server=server,
            original_name=original,
            definition=definition,
            fingerprint=digest,
            description=description if isinstance(description, str) else "",
            server_title=title,
            tags=rule.tags_of(original),
            category=rule.category,
            server_about=about,
        )
        yield before if before is not None and _same(record, before) else record


def _alike(one: Any, other: Any) -> bool:
    """Whether two definitions certainly have the same fingerprint, at an eighth of its cost.

    Equal ones may differ in what Python holds to be equal (`1`, `1.0`, `True`), which their bytes
    tell apart; members in another order are not told to be the same.
    """
    if one is other:
        return True
    try:
        return one == other and marshal.dumps(one, 0) == marshal.dumps(other, 0)
    except ValueError:  # not plain JSON
        return False


def _same(one: ToolRecord, other: ToolRecord) -> bool:
    """Whether nothing tells them apart; by their fingerprints, as `1` equals `true` in Python."""
    if one.fingerprint != other.fingerprint or one.server_about != other.server_about:
        return False
    return one == other
