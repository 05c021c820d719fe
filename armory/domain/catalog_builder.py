"""Builds catalogs: merges what the upstreams listed, under their rules, into one snapshot.

Owns: merging lists, exposed names, and taking over the records that are as they were. Never imports
anything but its domain siblings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from armory.domain.catalog import (
    EMPTY,
    Catalog,
    Definition,
    ServerLists,
    ToolRules,
    same_order,
)
from armory.domain.naming import expose_names, expose_uri
from armory.domain.tool import (
    MAX_ABOUT_CHARS,
    ListedRecord,
    ToolRecord,
    alike,
    fingerprint,
    keywords_of,
)


@dataclass(frozen=True, slots=True, eq=False)
class ServerPart:
    """The entries of one upstream after its rules were applied.

    Attributes:
        lists, rule: what it was made of.
        tools: by original name.
        problems: met on the way, one line each.
    """

    lists: ServerLists
    rule: ToolRules
    tools: Mapping[str, ToolRecord]
    prompts: Sequence[ListedRecord]
    resources: Sequence[ListedRecord]
    templates: Sequence[ListedRecord]
    skills: Sequence[ToolRecord]
    problems: Sequence[str]


class CatalogBuilder:
    """Builds one snapshot after the other.

    A server whose lists and rules are the same objects as last time is not processed again.
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
        known = {} if self._parts else _by_server(previous, servers)
        for server, lists in servers.items():
            rule = (rules or {}).get(server, ToolRules())
            part = self._parts.get(server)
            if part is None or part.lists is not lists or part.rule != rule:
                before = known.get(server, _NOTHING) if part is None else _Before.of(part)
                part = _part(server, lists, rule, before)
            parts[server] = part
        self._parts = parts
        catalog = _joined(previous.version + 1, servers, parts.values())
        problems = [problem for part in parts.values() for problem in part.problems]
        same = not catalog.diff(previous) and same_order(catalog.tools, previous.tools)
        if same and _descriptions(previous.servers) == _descriptions(servers):
            return previous, problems
        return catalog, problems


def build_catalog(
    servers: Mapping[str, ServerLists],
    rules: Mapping[str, ToolRules] | None = None,
    previous: Catalog = EMPTY,
) -> tuple[Catalog, list[str]]:
    """Build a single snapshot; see `CatalogBuilder.build`."""
    return CatalogBuilder().build(servers, rules, previous)


def _joined(
    version: int, servers: Mapping[str, ServerLists], parts: Collection[ServerPart]
) -> Catalog:
    return Catalog(
        version,
        dict(servers),
        {record.name: record for part in parts for record in part.tools.values()},
        {record.name: record for part in parts for record in part.prompts},
        {record.name: record for part in parts for record in part.resources},
        {record.name: record for part in parts for record in part.templates},
        {record.name: record for part in parts for record in part.skills},
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Before:
    """The records of one server in the previous snapshot, by original name."""

    tools: Mapping[str, ToolRecord] = field(default_factory=dict[str, ToolRecord])
    prompts: dict[str, ListedRecord] = field(default_factory=dict[str, ListedRecord])
    resources: dict[str, ListedRecord] = field(default_factory=dict[str, ListedRecord])
    templates: dict[str, ListedRecord] = field(default_factory=dict[str, ListedRecord])

    @classmethod
    def of(cls, part: ServerPart) -> _Before:
        """The records of a part."""
        return cls(
            part.tools,
            {record.original_name: record for record in part.prompts},
            {record.original_name: record for record in part.resources},
            {record.original_name: record for record in part.templates},
        )


_NOTHING = _Before()


def _part(server: str, lists: ServerLists, rule: ToolRules, before: _Before) -> ServerPart:
    """Build the part of one server; unchanged entries keep their record objects from `before`."""
    problems: list[str] = []
    tools = _tools_of(server, lists, rule, before.tools, problems)
    named = _keyed(server, "prompt", lists.prompts, "name", problems)
    exposed = expose_names(server, named)
    prompts = [
        _listed(server, name, exposed[name], entry, before.prompts.get(name))
        for name, entry in named.items()
    ]
    resources, templates = (
        [
            _listed(server, uri, expose_uri(server, uri), entry, known.get(uri))
            for uri, entry in _keyed(server, kind, entries, key, problems).items()
        ]
        for kind, entries, key, known in (
            ("resource", lists.resources, "uri", before.resources),
            ("resource template", lists.templates, "uriTemplate", before.templates),
        )
    )
    skills = list(_skills_of(server, lists, rule, problems))
    return ServerPart(lists, rule, tools, prompts, resources, templates, skills, problems)


def _by_server(catalog: Catalog, servers: Collection[str]) -> Mapping[str, _Before]:
    found = {server: _Before() for server in servers}
    for kind in ("tools", "prompts", "resources", "templates"):
        for record in getattr(catalog, kind).values():
            if record.server in found:
                getattr(found[record.server], kind)[record.original_name] = record
    return found


def with_shared_entries(lists: ServerLists, other: ServerLists) -> tuple[ServerLists, int]:
    """The lists with the entry objects of `other` wherever equal ones stand there: memory holds
    them once. `other` itself where nothing differs.

    Returns:
        The lists, and how many of their entries `other` has not.
    """
    kinds: dict[str, Any] = {}
    own = replaced = 0
    for kind, key in _KEYS.items():
        theirs: Sequence[Definition] = getattr(other, kind)
        known = {entry.get(key): entry for entry in theirs}
        entries: list[Definition] = []
        for entry in getattr(lists, kind):
            there = known.get(entry.get(key))
            if there is None or not alike(there, entry):
                own += 1
                there = entry
            replaced += there is not entry
            entries.append(there)
        kinds[kind] = entries
    found = replace(lists, **kinds) if replaced else lists
    return (other, 0) if not own and found.same(other) else (found, own)


_KEYS = {
    "tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate",
    "skills": "uri",
}  # fmt: skip
"""The member that names an entry, by kind."""


def _descriptions(servers: Mapping[str, ServerLists]) -> list[object]:
    """The fields of servers other than the entries, which `Catalog.diff` compares."""
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


def _listed(
    server: str, original: str, name: str, definition: Definition, before: ListedRecord | None
) -> ListedRecord:
    if before is not None and before.name == name and alike(before.definition, definition):
        return before
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
    texts = (lists.info.get("description"), lists.instructions)
    about = " ".join(text for text in texts if isinstance(text, str) and text)
    # On a line of their own: a sentence that is not indexed does not take them with it.
    return "\n".join(filter(None, (keywords_of(lists.info), about)))[:MAX_ABOUT_CHARS]


def _tools_of(
    server: str,
    lists: ServerLists,
    rule: ToolRules,
    known: Mapping[str, ToolRecord],
    problems: list[str],
) -> dict[str, ToolRecord]:
    # One table of definitions becomes that of their records: while one of 100,000 entries grows, or
    # is freed, it keeps all other threads waiting, for 20 ms on a busy machine.
    found = cast("dict[str, Any]", _keyed(server, "tool", lists.tools, "name", problems))
    for original in [original for original in found if not rule.includes(original)]:
        del found[original]
    exposed = expose_names(server, found, rule.rename)
    title, about = _title(lists), _about(lists)
    apart = all(name == f"{server}__{own}" for own, name in exposed.items())
    taken, renames = set[str](), frozenset(rule.rename.values())
    left_out: list[str] = []
    definition: Definition
    for original, definition in found.items():
        name = exposed[original]
        if name in taken:
            problems.append(f"{server}: tool {original!r} left out: {name!r} is taken")
            left_out.append(original)
            continue
        wanted = rule.rename.get(original, original)
        if wanted in renames and name != expose_names(server, (wanted,))[wanted]:
            problems.append(
                f"{server}: tool {original!r} is listed as {name!r}: {wanted!r} is taken by a "
                "rename, or too long"
            )
        if not apart:
            taken.add(name)
        before = known.get(original)
        digest = (
            before.fingerprint
            if before is not None and alike(before.definition, definition)
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
        found[original] = before if before is not None and _same(record, before) else record
    for original in left_out:
        del found[original]
    return found


def _same(one: ToolRecord, other: ToolRecord) -> bool:
    """Whether two records are equal; compares fingerprints, because `1 == True` in Python."""
    if one.fingerprint != other.fingerprint or one.server_about != other.server_about:
        return False
    return one == other
