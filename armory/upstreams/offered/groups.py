"""Fetching the groups that an upstream has of its own (draft `io.modelcontextprotocol/groups`).

Owns: what is asked, and the bounds on it. It asks as a client that declares the extension: the
gateway's own listing does not, and so has every tool. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw

from armory.domain.groups import OwnGroup
from armory.logger import Logger
from armory.protocol.capabilities import GROUPS_DECLARED, declares_groups
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.jsonrpc import error_of
from armory.protocol.link import Answer, Call, ClientGone, Params
from armory.protocol.rawjson import NULL, encode, few_items, members, text_of
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.lists.entries import Unusable, opened
from armory.upstreams.session.lists.pages import CURSOR_BYTES, long_cursor

log = Logger(__name__)

MAX_GROUPS = 500
MAX_LEVELS = 8
_MAX_PAGES = 100
_MOST = 20_000
"""Entries of a group that are read."""
_AT_ONCE = 64
"""Entries that are read in one round of the event loop."""
_TEXT_CHARS = 4_000
_EMPTY = Raw(b'""')
Entry = Mapping[str, Any]


class _Bad(Exception):
    """A malformed or refused answer; the message says why."""


class _Refused(_Bad):
    """An error for an answer."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"it refused {method}: {code} {message}")
        self.code = code


class _Declaring:
    """The channel of the gateway as a client that declares groups; it answers no questions."""

    capabilities: Mapping[str, Any] = MappingProxyType(GROUPS_DECLARED)
    log_level: str | None = None
    progress_token: Raw | None = None

    async def notify(self, method: str, params: Params) -> None:
        """Nobody listens."""

    async def ask(self, method: str, params: Params) -> Answer:
        raise ClientGone


async def fetch_groups(link: BaseLink) -> tuple[OwnGroup, ...]:
    """The groups of an upstream, nested as they are listed; each occurs once.

    Args:
        link: a session of the modern era, or one whose client declares the extension.

    Raises:
        UpstreamUnavailable: they cannot be fetched.
    """
    if not declares_groups(link.capabilities):
        return ()
    try:
        return await _Fetch(link).all()
    except _Bad as bad:
        raise link.unavailable(str(bad)) from None


class _Fetch:
    def __init__(self, link: BaseLink) -> None:
        self._link = link
        self._met: set[str] = set()
        self._client = _Declaring()

    async def all(self) -> tuple[OwnGroup, ...]:
        entries: list[Raw] = []
        cursors: set[bytes] = set()
        params: Params = {}
        for _ in range(_MAX_PAGES):
            page = await self._page(params)
            entries += _array(page, "groups")
            if len(entries) > _MOST:
                del entries[_MOST:]
                break
            cursor = page.get("nextCursor")
            if cursor is not None and len(memoryview(cursor)) > CURSOR_BYTES:
                raise _Bad(f"groups/list has {long_cursor(cursor)}")
            if cursor is None or cursor == NULL or bytes(cursor) in cursors:
                break
            if cursor == _EMPTY and self._link.era != "modern":  # as of lists: see `PageReader`
                break
            cursors.add(bytes(cursor))
            params = {"cursor": cursor}
        return await self._within(entries, 1)

    async def _page(self, params: Params) -> dict[str, Raw]:
        """One page of `groups/list`; an empty one where an empty cursor meant the end."""
        try:
            return await self._asked("groups/list", params)
        except _Refused as refused:
            if params.get("cursor") != _EMPTY or refused.code != INVALID_PARAMS:
                raise
            return {}

    async def _within(self, entries: list[Raw], level: int) -> tuple[OwnGroup, ...]:
        """The groups that entries name, level by level, so that a repeated one stays at its highest
        place.
        """
        named: list[Entry] = []
        for place, raw in enumerate(entries):
            if len(self._met) >= MAX_GROUPS:
                break
            if place % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            try:
                entry = opened(raw, "name")
            except Unusable as problem:
                self._dropped("", problem)
                continue
            if entry["name"] not in self._met:
                self._met.add(entry["name"])
                named.append(entry)
        groups = [await self._group(entry, level) for entry in named]
        return tuple(group for group in groups if group is not None)

    async def _group(self, entry: Entry, level: int) -> OwnGroup | None:
        name: str = entry["name"]
        try:
            got = await self._asked("groups/get", {"name": Raw(encode(name))})
            contents = _members(got.get("contents", Raw(b"{}")))
            tools = [_members(raw) for raw in _array(contents, "tools")]
            inner = _array(contents, "groups") if level < MAX_LEVELS else []
        except _Bad as bad:
            self._dropped(name, bad)
            return None
        originals = [found for tool in tools if (found := text_of(tool, "name"))]
        group = OwnGroup(
            name,
            _text(entry.get("title")),
            _text(entry.get("description")),
            _text(text_of(got, "instructions")),
            tuple(dict.fromkeys(originals)),
        )
        return replace(group, groups=await self._within(inner, level + 1))

    async def _asked(self, method: str, params: Params) -> dict[str, Raw]:
        call = Call(method, params, client=self._client, safe_to_retry=True)
        reply = await self._link.request(call)
        if reply.error is not None:
            error = error_of(reply.error)
            raise _Refused(method, error.code, error.message)
        return _members(NULL if reply.result is None else reply.result)

    def _dropped(self, name: str, why: Exception) -> None:
        said = {"group": name[:80], "error": str(why)[:200]}
        self._link.budget.say(log.warning, "upstream_group_dropped", **said)


def _members(raw: Raw) -> dict[str, Raw]:
    try:
        return members(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise _Bad("a part of its groups is no object") from None


def _array(source: Mapping[str, Raw], member: str) -> list[Raw]:
    try:
        return few_items(source.get(member, Raw(b"[]")), _MOST)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise _Bad(f"its {member!r} is no array, or too long a one") from None


def _text(value: object) -> str:
    return value[:_TEXT_CHARS] if isinstance(value, str) else ""
