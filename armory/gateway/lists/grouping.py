"""The groups of tools that a caller sees: per server, set and pack, and those of upstreams.

Owns: what is in a group and what it is called. An upstream's own groups stand inside the group of
their server, under names made of both. Never imports a transport.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from armory.domain.catalog import ServerLists
from armory.domain.groups import OwnGroup
from armory.domain.tool import names_by_server
from armory.gateway.context import RequestContext
from armory.gateway.metatools.definitions import purpose
from armory.gateway.views.view import View
from armory.security.packs import NamedPack

SET_PREFIX = "set-"
PACK_PREFIX = "pack-"
FROM_PREFIX = "from-"
_PREFIXES = (SET_PREFIX, PACK_PREFIX, FROM_PREFIX)
MAX_NAME = 64
_NAME = re.compile("[a-z0-9]+(-[a-z0-9]+)*")
_BETWEEN_WORDS = re.compile("[^a-z0-9]+")
_HASHED = 8
_NAMED_SERVERS = 8


@dataclass(frozen=True, slots=True)
class Group:
    """One group as one caller sees it.

    Attributes:
        name: 1 to 64 lower-case letters, digits and single hyphens; the same for every caller.
        title: what it is called in `armory.yaml`, by whoever made the pack, or by its upstream.
        description: what it is for, in a phrase.
        tools: exposed names of its tools, in the catalog's order.
        instructions: what its server says about using it; "": nothing.
        groups: those inside it; there is one, or a tool.
    """

    name: str
    title: str
    description: str
    tools: tuple[str, ...]
    instructions: str = ""
    groups: tuple[Group, ...] = ()

    def listed(self) -> dict[str, Any]:
        """The `Group` object of the draft."""
        return {"name": self.name, "title": self.title, "description": self.description}


def groups_of(context: RequestContext) -> Iterator[Group]:
    """The top-level groups that a caller sees: servers, then sets, in configuration order, then the
    caller's active packs.

    A pinned tool is in `tools/list` and therefore in no group. A group without tools is left out.
    """
    view = context.view
    visible, catalog = view.visible(context), view.catalog
    pinned = frozenset(view.pinned(visible))
    shown_tools = visible.tools.names - pinned
    scoped = names_by_server(tool for name, tool in catalog.tools.items() if name in shown_tools)
    for key, lists in catalog.servers.items():
        names = scoped.get(key)
        if names:
            yield _of_server(view, key, lists, names)
    if context.endpoint.kind == "all":
        yield from _sets(view, scoped)
        yield from _packs(view.policy.packs_of(context.principal), scoped)


def group_named(context: RequestContext, name: str) -> Group | None:
    """The group of that name at any level; None: there is none for this caller."""
    waiting = [*groups_of(context)]
    while waiting:
        group = waiting.pop()
        if group.name == name:
            return group
        waiting += group.groups
    return None


def _of_server(view: View, key: str, lists: ServerLists, names: list[str]) -> Group:
    """The group of a server: its own groups, and the tools that are in none of them."""
    tools = view.catalog.tools
    shown = replace(lists, tools=[{"name": name.removeprefix(f"{key}__")} for name in names])
    about = purpose(key, shown)  # of what others see, it names nothing
    by_original = {tools[name].original_name: name for name in names}
    inner = _inside(key, lists.groups, by_original)
    within = {name for group in inner for name in _everything_in(group)}
    rest = tuple(name for name in names if name not in within)
    return Group(group_name(key), key, about, rest, lists.instructions, inner)


def _inside(
    server: str, groups: Iterable[OwnGroup], by_original: Mapping[str, str]
) -> tuple[Group, ...]:
    """The groups of an upstream, without those of which the caller may see nothing."""
    found: list[Group] = []
    for own in groups:
        names = {by_original[tool]: None for tool in own.tools if tool in by_original}
        inner = _inside(server, own.groups, by_original)
        if names or inner:
            title = own.title or own.name
            about = own.description or f"Tools of {title}."
            name = own_name(server, own.name)
            found.append(Group(name, title, about, tuple(names), own.instructions, inner))
    return tuple(found)


def _everything_in(group: Group) -> Iterator[str]:
    yield from group.tools
    for inner in group.groups:
        yield from _everything_in(inner)


def _sets(view: View, scoped: Mapping[str, list[str]]) -> Iterator[Group]:
    """The groups of sets.

    Args:
        view: what is served.
        scoped: server key -> the tools that groups may have.
    """
    for key, spec in view.settings.sets.items():
        endpoint = view.endpoint("set", key)
        if endpoint is not None:
            about = f"For: {'; '.join(spec.query)}. " if spec.query else ""
            name = group_name(key, SET_PREFIX)
            yield from _chosen(name, key, about, endpoint.scope.has_tool, scoped)


def _packs(packs: Iterable[NamedPack], scoped: Mapping[str, list[str]]) -> Iterator[Group]:
    for pack in packs:
        description = " ".join(pack.description.split())
        about = f"{description} " if description else ""
        name = group_name(pack.id, PACK_PREFIX)
        yield from _chosen(name, pack.title, about, pack.has_tool, scoped)


def _chosen(
    name: str,
    title: str,
    about: str,
    has: Callable[[str, str], bool],
    scoped: Mapping[str, list[str]],
) -> Iterator[Group]:
    """A group of tools chosen from all servers; none where nothing is visible."""
    found = {server: [n for n in names if has(server, n)] for server, names in scoped.items()}
    tools = tuple(name for among in found.values() for name in among)
    if tools:
        servers = [server for server, among in found.items() if among]
        named = ", ".join(servers[:_NAMED_SERVERS])
        more = " and more" if len(servers) > _NAMED_SERVERS else ""
        yield Group(name, title, f"{about}Tools of {named}{more}.", tools)


def group_name(key: str, prefix: str = "") -> str:
    """The name of the group of a server, a set or a pack, independent of other groups.

    A key that is no valid group name gets a part of its hash, so that no two keys share a name.

    Args:
        key: as in `armory.yaml`, or a pack's id.
        prefix: "" for servers, else what kind of group it is.
    """
    plain = _BETWEEN_WORDS.sub("-", key.lower()).strip("-")
    fits = plain == key and len(prefix + plain) <= MAX_NAME
    if fits and (prefix or not plain.startswith(_PREFIXES)):
        return prefix + plain
    digest = hashlib.sha256(key.encode()).hexdigest()[:_HASHED]
    while not prefix and plain.startswith(_PREFIXES):
        plain = plain.partition("-")[2]
    room = MAX_NAME - len(prefix) - len(digest) - 1
    plain = plain[:room].strip("-") or "group"
    return f"{prefix}{plain}-{digest}"


def own_name(server: str, group: str) -> str:
    """The name of an upstream's own group, independent of other groups.

    Args:
        server: the upstream's key.
        group: the name that the upstream gives it.
    """
    # the first hyphen ends a key that has none; a slash is in no key
    joint = "-" if "-" not in server and _NAME.fullmatch(group) else "/"
    return group_name(f"{server}{joint}{group}", FROM_PREFIX)
