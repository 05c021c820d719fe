"""All lists of an upstream as one value; a list that cannot be fetched stays as it was.

Owns: which lists are fetched, and which entries are left out. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from armory.domain.catalog import LARGE, ServerLists, large
from armory.domain.catalog_builder import with_shared_entries
from armory.domain.skills import skill_problem
from armory.errors import UpstreamUnavailable
from armory.logger import Logger
from armory.protocol.capabilities import skills_settings
from armory.protocol.headers import HEADER_KEY_JSON, annotation_problem
from armory.protocol.rawjson import encode
from armory.threads import in_turn_if, let_go
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.lists.entries import MAX_LEVELS, Omissions, fits
from armory.upstreams.session.lists.loops import returning
from armory.upstreams.session.lists.pages import (
    MEMBER,
    PROMPTS,
    RESOURCES,
    SKILLS,
    TEMPLATES,
    TOOLS,
    Entries,
    PageReader,
    Room,
    in_turns,
)
from armory.upstreams.spec import LIST_BYTES, LIST_ENTRIES

log = Logger(__name__)

_CAPABILITY = {TOOLS: "tools", PROMPTS: "prompts", RESOURCES: "resources", TEMPLATES: "resources"}
_JOINTS = {
    TOOLS: ("name", "__"),
    PROMPTS: ("name", "__"),
    RESOURCES: ("uri", "+"),
    TEMPLATES: ("uriTemplate", "+"),
}
"""By list: the member that names an entry, and what stands between a key and the name."""


@dataclass(slots=True)
class _Read:
    """The lists that were read.

    Attributes:
        entries: by method.
        cache: (milliseconds to live, scope) by method, where the upstream says.
        size_bytes: of all pages as they came.
    """

    entries: dict[str, Entries] = field(default_factory=dict[str, Entries])
    cache: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    size_bytes: int = 0


async def fetch_lists(
    link: BaseLink,
    *,
    before: ServerLists | None = None,
    max_entries: int = LIST_ENTRIES,
    max_bytes: int = LIST_BYTES,
    declared: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> ServerLists:
    """Fetch every list that the upstream's capabilities promise.

    Args:
        link: the upstream. If it mirrors parameters in headers, tools with invalid `x-mcp-header`
            annotations are left out, as clients must do on modern HTTP.
        before: the last good lists. A list other than the tools' that fails stays as it was there.
        max_entries: most entries of one list; a longer one fails.
        max_bytes: memory that all lists may take, as estimated; the list that exceeds it fails.
        declared: the capabilities to declare to an upstream of 2026-07-28, whose lists may depend
            on them.
        quiet: do not log the entries that are left out, because they were logged for the gateway's
            own lists.

    Raises:
        UpstreamUnavailable: the list of tools could not be fetched.
    """
    omitted, room = Omissions(), Room(max_bytes)
    reader = PageReader(link, max_entries, room, omitted, declared)
    read = await _read_lists(link, reader, room, omitted, before)
    lists = read.entries
    for method in [method for method in _JOINTS if method in lists]:
        lists[method] = await _without_loops(link.server, lists[method], method, omitted)
    tools = lists.get(TOOLS, [])
    if link.mirrors_params:
        tools = [tool async for tool in in_turns(tools) if _headers_valid(tool, omitted)]
    skills = [skill for skill in lists.get(SKILLS, []) if _loadable(skill, omitted)]
    info, capabilities = _self_description(link, omitted)
    if not quiet:
        _log_omitted(link.server, omitted, before)
    return ServerLists(
        tools=tools,
        prompts=lists.get(PROMPTS, []),
        resources=lists.get(RESOURCES, []),
        templates=lists.get(TEMPLATES, []),
        info=info,
        instructions=link.instructions,
        capabilities=capabilities,
        cache=read.cache,
        skills=skills,
        dropped=tuple(omitted.first),
        dropped_count=omitted.count,
        size_bytes=read.size_bytes,
    )


async def _read_lists(
    link: BaseLink,
    reader: PageReader,
    room: Room,
    omitted: Omissions,
    before: ServerLists | None,
) -> _Read:
    """Read every list that the upstream promises; one that fails stays as it was `before`.

    Raises:
        UpstreamUnavailable: the list of tools failed.
    """
    read = _Read()
    for method in MEMBER:
        if not _promised(link.capabilities, method):
            continue
        left = room.left
        try:
            fetched = await reader.read(method)
        except UpstreamUnavailable as error:
            if method == TOOLS:
                raise
            room.left = left  # nothing of it stays
            log.warning("upstream_list_failed", upstream=link.server, list=method, error=str(error))
            read.entries[method] = _previous(before, method)
            continue
        read.entries[method] = fetched.entries
        read.size_bytes += fetched.size_bytes
        for name, why in link.left_out.get(method, ()):
            omitted.add(method, name, why)
        if fetched.hint is not None:
            read.cache[method] = fetched.hint
    return read


def _promised(capabilities: Mapping[str, Any], method: str) -> bool:
    if method == SKILLS:
        return skills_settings(capabilities) is not None
    # Early servers declared nothing and served tools all the same.
    return _CAPABILITY[method] in capabilities or (method == TOOLS and not capabilities)


async def compared(lists: ServerLists, before: ServerLists | None) -> ServerLists:
    """The lists with the same objects as in `before` where entries are equal, and `before` itself
    where nothing differs. Long lists are compared beside the event loop.
    """
    if before is None:
        return lists
    shared, _ = await in_turn_if(large((lists, before)), with_shared_entries, lists, before)
    if shared is not lists:
        free_entries(lists)  # most of them equal to those before
    return shared


def free_entries(lists: ServerLists) -> None:
    """Free those entries that nothing else has beside the event loop, where they are many."""
    for entries in lists.sequences():
        let_go([*entries])


def _previous(before: ServerLists | None, method: str) -> Entries:
    if before is None:
        return []
    lists = {
        PROMPTS: before.prompts,
        RESOURCES: before.resources,
        TEMPLATES: before.templates,
        SKILLS: before.skills,
    }
    return list(lists[method])


def _headers_valid(tool: Mapping[str, Any], omitted: Omissions) -> bool:
    if HEADER_KEY_JSON not in encode(tool.get("inputSchema")):
        return True
    why = annotation_problem(tool.get("inputSchema"))
    if why is not None:
        omitted.add(TOOLS, tool["name"], why)
    return why is None


async def _without_loops(server: str, entries: Entries, method: str, omitted: Omissions) -> Entries:
    """The entries but those that lead back to this gateway."""
    key, joint = _JOINTS[method]
    loops = await in_turn_if(len(entries) > LARGE, returning, server, entries, key, joint)
    for name, why in loops.items():
        omitted.add(method, name, why)
    return [entry for entry in entries if entry[key] not in loops] if loops else entries


def _loadable(skill: Mapping[str, Any], omitted: Omissions) -> bool:
    why = skill_problem(skill)
    if why is not None:
        omitted.add(SKILLS, skill["uri"], why)
    return why is None


def _self_description(
    link: BaseLink, omitted: Omissions
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The upstream's description of itself: its `serverInfo` and its capabilities."""
    parts: list[Mapping[str, Any]] = []
    for name, part in (("serverInfo", link.server_info), ("capabilities", link.capabilities)):
        parts.append(part if fits(part) else {})
        if not fits(part):
            omitted.add("initialize", name, f"it is nested deeper than {MAX_LEVELS} levels")
    return parts[0], parts[1]


def _log_omitted(server: str, omitted: Omissions, before: ServerLists | None) -> None:
    """Log what was left out, once while it stays the same."""
    logged = before.dropped if before is not None else ()
    for entry in omitted.first:
        if entry not in logged:
            log.warning(
                "upstream_entry_dropped",
                upstream=server,
                list=entry.list,
                entry=entry.entry,
                error=entry.reason,
            )
    if omitted.count > len(omitted.first) and (
        before is None or before.dropped_count != omitted.count
    ):
        log.warning("upstream_entries_dropped", upstream=server, entries=omitted.count)
