"""Reads one list of an upstream, all pages, verbatim; a malformed entry is left out.

Owns: paging, its limits, and which malformations fail the list. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from armory.errors import UpstreamUnavailable
from armory.protocol.codes import INVALID_PARAMS, METHOD_NOT_FOUND
from armory.protocol.jsonrpc import ErrorObject, error_of
from armory.protocol.link import Call
from armory.protocol.rawjson import EMPTY_OBJECT, NULL, opening, scalar
from armory.protocol.scanning.pieces import items_in_pieces
from armory.tasks import give_way, step_by_step
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.lists.entries import Omissions, Unusable, opened, weight

MAX_PAGES = 2_000
CURSOR_BYTES = 16 * 1024
"""Longest cursor: each is remembered until the list's end, to notice one that is repeated."""
_LONGEST_MS = (1 << 53) - 1
"""Longest time to live: the largest integer that every client reads exactly."""
LONGEST_S = 30.0
"""After this long no further page is fetched of any list but the tools', which wait for the others:
some servers list every file of a cloud drive as a resource, ten a page.
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
_KEY = {TOOLS: "name", PROMPTS: "name", RESOURCES: "uri", TEMPLATES: "uriTemplate", SKILLS: "uri"}
"""The member that names an entry."""

_EMPTY = Raw(b'""')
_NO_ENTRIES = (NULL, EMPTY_OBJECT)
"""What some servers send for an empty list: in Go a nil slice, in Lua an empty table."""
_T = TypeVar("_T")
Entries = list[Mapping[str, Any]]


class BadList(UpstreamUnavailable):
    """The upstream's list is malformed, or has no end."""


class Room:
    """The memory that one upstream's lists may still take: `left` bytes."""

    def __init__(self, most: int) -> None:
        self._most = self.left = most

    def take(self, server: str, entry: Raw) -> None:
        """Count an entry that was decoded.

        Raises:
            BadList: there is no room for it.
        """
        self.left -= weight(entry)
        if self.left < 0:
            raise BadList(
                f"upstream {server!r}: its lists take more than {self._most:,} bytes in memory, as "
                "estimated; server.limits.list_bytes sets that limit",
                upstream=server,
            )


@dataclass(frozen=True, slots=True)
class OneList:
    """A list, all its pages put together.

    Attributes:
        entries: what it holds.
        hint: how many milliseconds it may be kept and for whom, where any page says so.
        size_bytes: of all pages as they came.
    """

    entries: Entries
    hint: tuple[int, str] | None
    size_bytes: int


class PageReader:
    """Reads the lists of one upstream.

    Args:
        link: whose lists.
        max_entries: of one list; a longer one fails.
        room: the memory that all lists together may still take.
        omitted: records each entry that is left out.
        declared: as of `fetch_lists`.
    """

    def __init__(
        self,
        link: BaseLink,
        max_entries: int,
        room: Room,
        omitted: Omissions,
        declared: Mapping[str, Any] | None = None,
    ) -> None:
        self._link = link
        self._max_entries = max_entries
        self._room = room
        self._omitted = omitted
        self._declared = declared

    async def read(self, method: str) -> OneList:
        """The list that `method` fetches; empty where the upstream has no such method.

        Raises:
            BadList: it is malformed, has no end, or is too long.
            UpstreamUnavailable: it cannot be fetched.
        """
        size = 0
        entries: Entries = []
        hints: list[tuple[int, str]] = []
        cursor: Raw | None = None
        first: Raw | None = None
        seen: set[bytes] = set()
        until = monotonic() + LONGEST_S
        for number in range(MAX_PAGES):
            if number and method != TOOLS and monotonic() > until:
                raise self._bad(f"{method} has no end within {number:,} pages and {LONGEST_S:g} s")
            reply = await self._link.request(
                Call(
                    method,
                    {} if cursor is None else {"cursor": cursor},
                    declared=self._declared,
                    safe_to_retry=True,
                )
            )
            if reply.error is not None:
                self._end_at(error_of(reply.error), method, cursor)
                return OneList(entries, _strictest(hints), size)
            result = NULL if reply.result is None else reply.result
            size += len(memoryview(result))
            page = await self._page(method, result)
            shown = page.get(MEMBER[method])
            if cursor == _EMPTY and shown == first:  # it started over
                return OneList(entries, _strictest(hints), size)
            first = first or shown
            await self._collect(method, page, entries)
            hint = _hint(page)
            if hint is not None:
                hints.append(hint)
            cursor = self._next_cursor(method, page, seen)
            if cursor is None:
                return OneList(entries, _strictest(hints), size)
        raise self._bad(f"{method} has no end within {MAX_PAGES:,} pages")

    def _next_cursor(self, method: str, page: Mapping[str, Raw], seen: set[bytes]) -> Raw | None:
        """The cursor of the next page, which is added to `seen`; None after the last page.

        Raises:
            BadList: it is too long, or was there before.
        """
        cursor = page.get("nextCursor")
        if cursor is not None and len(memoryview(cursor)) > CURSOR_BYTES:
            raise self._bad(f"{method} has {long_cursor(cursor)}")
        if cursor is None or cursor == NULL or (cursor == _EMPTY and self._empty_ends):
            return None
        if bytes(cursor) in seen:
            raise self._bad(f"{method} repeats a cursor")
        seen.add(bytes(cursor))
        return cursor

    @property
    def _empty_ends(self) -> bool:
        """Whether an empty cursor means the end of a list. In the modern era it is a cursor like
        any other; older revisions do not say, and many of their servers mean the end.
        """
        return self._link.era != "modern"

    def _end_at(self, error: ErrorObject, method: str, cursor: Raw | None) -> None:
        """Take an error for the end of the list: for the first page it means that there is no such
        list, after an empty cursor that the server meant the end.

        Raises:
            BadList: it means something else.
        """
        absent = cursor is None and error.code == METHOD_NOT_FOUND
        if absent or (cursor == _EMPTY and error.code == INVALID_PARAMS):
            return
        raise BadList(
            f"upstream {self._link.server!r} refused {method}: {error.code} {error.message}",
            upstream=self._link.server,
        )

    async def _page(self, method: str, result: Raw) -> dict[str, Raw]:
        try:
            return await step_by_step(opening(result))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise self._bad(f"the result of {method} is no object") from None

    async def _collect(self, method: str, page: Mapping[str, Raw], entries: Entries) -> None:
        """Decode a page's entries; a long page yields to the event loop now and then."""
        member, key = MEMBER[method], _KEY[method]
        listed = page.get(member)
        if listed in _NO_ENTRIES:
            return
        position = 0
        try:
            for number, raws in enumerate(items_in_pieces(listed or NULL)):
                if number:
                    await asyncio.sleep(0)
                # Those that are left out count as well.
                if len(raws) + max(position, len(entries)) > self._max_entries:
                    raise self._bad(
                        f"{method} has more than {self._max_entries:,} entries; "
                        "server.limits.list_entries sets that limit"
                    )
                async for raw in in_turns(raws):
                    try:
                        entries.append(opened(raw, key))
                        self._room.take(self._link.server, raw)
                    except Unusable as error:
                        self._omitted.add_raw(method, raw, key, position, str(error))
                    position += 1
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise self._bad(f"the result of {method} has no array {member!r}") from None

    def _bad(self, what: str) -> BadList:
        server = self._link.server
        return BadList(f"upstream {server!r}: {what}", upstream=server)


def long_cursor(cursor: Raw) -> str:
    """What is wrong with a cursor of more than `CURSOR_BYTES`."""
    length = len(memoryview(cursor))
    return f"a nextCursor of {length:,} bytes, more than the {CURSOR_BYTES:,} that are kept"


async def in_turns(entries: Sequence[_T]) -> AsyncGenerator[_T]:
    """Iterate over many entries, yielding to the event loop now and then."""
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
    return min(max(0, number), _LONGEST_MS), "public" if scope == "public" else "private"


def _strictest(hints: list[tuple[int, str]]) -> tuple[int, str] | None:
    """The shortest time, and the narrowest scope."""
    if not hints:
        return None
    private = any(scope == "private" for _, scope in hints)
    return min(ttl for ttl, _ in hints), "private" if private else "public"
