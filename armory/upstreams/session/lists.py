"""Fetching everything that an upstream lists: all pages, verbatim, one bad entry at most lost.

Owns: paging, its limits, what a broken list costs. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from time import monotonic
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from armory.domain.catalog import ServerLists, large
from armory.domain.catalog_builder import with_shared_entries
from armory.domain.skills import skill_problem
from armory.errors import UpstreamUnavailable
from armory.logger import Logger
from armory.protocol.codes import METHOD_NOT_FOUND
from armory.protocol.headers import HEADER_KEY_JSON, annotation_problem
from armory.protocol.jsonrpc import error_of
from armory.protocol.link import Call
from armory.protocol.methods import skills_settings
from armory.protocol.rawjson import (
    NULL,
    PIECE_BYTES,
    encode,
    items_in_pieces,
    members,
    scalar,
)
from armory.tasks import give_way
from armory.threads import in_turn_if
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.entries import MAX_LEVELS, Omissions, Unusable, fits, opened, weight

log = Logger(__name__)

MAX_PAGES = 2_000
MAX_ENTRIES = 250_000
MAX_LIST_BYTES = 256 * 1024 * 1024
"""As much as some 150,000 published tools."""
LONGEST_S = 30.0
"""After so long no further page is fetched of lists other than the tools', which wait for them:
there are servers that list every file of a cloud drive as a resource, ten a page.
"""
_TURN_S = 0.001
"""How long entries are decoded before the event loop gets its next turn."""

TOOLS = "tools/list"
PROMPTS = "prompts/list"
RESOURCES = "resources/list"
TEMPLATES = "resources/templates/list"
SKILLS = "skills/list"
MEMBER = {
    TOOLS: "tools",
    PROMPTS: "prompts",
    RESOURCES: "resources",
    TEMPLATES: "resourceTemplates",
    SKILLS: "skills",
}
KEY = {TOOLS: "name", PROMPTS: "name", RESOURCES: "uri", TEMPLATES: "uriTemplate", SKILLS: "uri"}
"""The member that names an entry."""
CAPABILITY = {TOOLS: "tools", PROMPTS: "prompts", RESOURCES: "resources", TEMPLATES: "resources"}

_T = TypeVar("_T")
Entries = list[Mapping[str, Any]]


class BadList(UpstreamUnavailable):
    """The upstream's list is none, or has no end."""


class _Room:
    """What the lists of one upstream may still take in memory."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def take(self, server: str, entry: Raw) -> None:
        """Count an entry that was opened.

        Raises:
            BadList: there is no room for it.
        """
        self._left -= weight(entry)
        if self._left < 0:
            raise BadList(
                f"upstream {server!r}: its lists take more than {self._most:,} bytes in memory, as "
                "estimated; server.limits.list_bytes sets that limit",
                upstream=server,
            )


async def fetch_lists(
    link: BaseLink,
    *,
    before: ServerLists | None = None,
    max_entries: int = MAX_ENTRIES,
    max_bytes: int = MAX_LIST_BYTES,
    quiet: bool = False,
) -> ServerLists:
    """Every list that the upstream's capabilities promise.

    Args:
        link: whose lists; where it mirrors parameters, tools whose `x-mcp-header` annotations are
            invalid are left out (a client's duty on modern HTTP).
        before: the last good lists; a list other than the tools' that fails stays as it was there.
        max_entries: entries of one list; a longer one fails.
        max_bytes: what all lists may take in memory, as estimated; one that takes more fails.
        quiet: what is left out is not logged: it is for the gateway's own lists already.

    Raises:
        UpstreamUnavailable: the list of tools could not be had.
    """
    cache: dict[str, tuple[int, str]] = {}
    omitted = Omissions()
    lists: dict[str, Entries] = {}
    size, room = 0, _Room(max_bytes)
    for method in MEMBER:
        if not _promised(link.capabilities, method):
            continue
        try:
            lists[method], hint, took = await _fetch(link, method, max_entries, room, omitted)
            size += took
        except UpstreamUnavailable as error:
            if method == TOOLS:
                raise
            log.warning("upstream_list_failed", upstream=link.server, list=method, error=str(error))
            lists[method] = _previous(before, method)
            continue
        for name, why in link.left_out.get(method, ()):
            omitted.add(method, name, why)
        if hint is not None:
            cache[method] = hint
    tools = lists.get(TOOLS, [])
    if link.mirrors_params:
        tools = [tool async for tool in _in_turns(tools) if _headers_valid(tool, omitted)]
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
        cache=cache,
        skills=skills,
        dropped=tuple(omitted.first),
        dropped_count=omitted.count,
        size_bytes=size,
    )


def _promised(capabilities: Mapping[str, Any], method: str) -> bool:
    if method == SKILLS:
        return skills_settings(capabilities) is not None
    # Early servers declared nothing and served tools all the same.
    return CAPABILITY[method] in capabilities or (method == TOOLS and not capabilities)


async def _fetch(
    link: BaseLink, method: str, max_entries: int, room: _Room, omitted: Omissions
) -> tuple[Entries, tuple[int, str] | None, int]:
    """(entries, how long and for whom they may be kept, bytes of all pages)."""
    server = link.server
    size = 0
    entries: Entries = []
    hints: list[tuple[int, str]] = []
    cursor: Raw | None = None
    seen: set[bytes] = set()
    until = monotonic() + LONGEST_S
    for number in range(MAX_PAGES):
        if number and method != TOOLS and monotonic() > until:
            raise BadList(
                f"upstream {server!r}: {method} has no end within {number:,} pages and "
                f"{LONGEST_S:g} s",
                upstream=server,
            )
        reply = await link.request(
            Call(method, {} if cursor is None else {"cursor": cursor}, safe_to_retry=True)
        )
        if reply.error is not None:
            error = error_of(reply.error)
            if error.code == METHOD_NOT_FOUND and not entries:
                return [], None, size
            raise BadList(
                f"upstream {server!r} refused {method}: {error.code} {error.message}",
                upstream=server,
            )
        size += len(memoryview(NULL if reply.result is None else reply.result))
        page = _members(server, method, reply.result)
        if len(memoryview(page.get(MEMBER[method], NULL))) > PIECE_BYTES:
            await asyncio.sleep(0)  # finding the end of a large list took long enough
        await _collect(server, method, page, entries, room, omitted)
        if len(entries) > max_entries:
            raise BadList(
                f"upstream {server!r}: {method} has more than {max_entries:,} entries; "
                "server.limits.list_entries sets that limit",
                upstream=server,
            )
        hint = _hint(page)
        if hint is not None:
            hints.append(hint)
        cursor = page.get("nextCursor")
        if cursor is None or bytes(cursor) in (b"null", b'""'):
            return entries, _least(hints), size
        if bytes(cursor) in seen:
            raise BadList(f"upstream {server!r}: {method} repeats a cursor", upstream=server)
        seen.add(bytes(cursor))
    raise BadList(
        f"upstream {server!r}: {method} has no end within {MAX_PAGES:,} pages", upstream=server
    )


def _members(server: str, method: str, result: Raw | None) -> dict[str, Raw]:
    try:
        return members(NULL if result is None else result)
    except (msgspec.DecodeError, RecursionError):
        raise BadList(
            f"upstream {server!r}: the result of {method} is no object", upstream=server
        ) from None


async def _collect(
    server: str,
    method: str,
    page: Mapping[str, Raw],
    entries: Entries,
    room: _Room,
    omitted: Omissions,
) -> None:
    """Open a page's entries; a long one leaves the loop to others now and then."""
    member = MEMBER[method]
    position = 0
    try:
        for raws in items_in_pieces(page.get(member, NULL)):
            if position:
                await asyncio.sleep(0)
            async for raw in _in_turns(raws):
                try:
                    entries.append(opened(raw, KEY[method]))
                    room.take(server, raw)
                except Unusable as error:
                    omitted.add_raw(method, raw, KEY[method], position, str(error))
                position += 1
    except (msgspec.DecodeError, RecursionError):
        raise BadList(
            f"upstream {server!r}: the result of {method} has no array {member!r}", upstream=server
        ) from None


async def compared(lists: ServerLists, before: ServerLists | None) -> ServerLists:
    """The lists with the very entries of `before` where they are the same, and `before` itself
    where nothing differs; many entries are compared beside the event loop.
    """
    if before is None:
        return lists
    return (await in_turn_if(large((lists, before)), with_shared_entries, lists, before))[0]


async def _in_turns(entries: Sequence[_T]) -> AsyncGenerator[_T]:
    """Each of them; now and then the loop is left to others."""
    turn_ends = monotonic() + _TURN_S
    for entry in entries:
        if monotonic() > turn_ends:
            await give_way(_TURN_S)
            turn_ends = monotonic() + _TURN_S
        yield entry


def _hint(page: Mapping[str, Raw]) -> tuple[int, str] | None:
    if "ttlMs" not in page and "cacheScope" not in page:
        return None
    ttl, scope = scalar(page.get("ttlMs")), scalar(page.get("cacheScope"))
    number = int(ttl) if isinstance(ttl, int | float) and not isinstance(ttl, bool) else 0
    return max(0, number), "public" if scope == "public" else "private"


def _least(hints: list[tuple[int, str]]) -> tuple[int, str] | None:
    if not hints:
        return None
    private = any(scope == "private" for _, scope in hints)
    return min(ttl for ttl, _ in hints), "private" if private else "public"


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


def _loadable(skill: Mapping[str, Any], omitted: Omissions) -> bool:
    why = skill_problem(skill)
    if why is not None:
        omitted.add(SKILLS, skill["uri"], why)
    return why is None


def _self_description(
    link: BaseLink, omitted: Omissions
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What the upstream says of itself: its `serverInfo` and its capabilities."""
    parts: list[Mapping[str, Any]] = []
    for name, part in (("serverInfo", link.server_info), ("capabilities", link.capabilities)):
        parts.append(part if fits(part) else {})
        if not fits(part):
            omitted.add("initialize", name, f"it is nested deeper than {MAX_LEVELS} levels")
    return parts[0], parts[1]


def _log_omitted(server: str, omitted: Omissions, before: ServerLists | None) -> None:
    """Log what was left out, once for as long as it stays the same."""
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
