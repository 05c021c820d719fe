"""The views of single principals: built and cached.

Owns: which caller is served from which view, and the tools that only single principals have. Never
imports a transport or retrieval. Bounded everywhere.
"""

from __future__ import annotations

import asyncio
import marshal
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from cachetools import LRUCache

from armory.domain.catalog import Catalog, ServerLists, large
from armory.domain.catalog_builder import build_catalog
from armory.domain.tool import ListedRecord, ToolRecord
from armory.gateway.endpoint import Endpoint
from armory.gateway.ports import PrivateTools
from armory.gateway.requests import ClientRequest
from armory.gateway.views.declared_lists import DeclaredLists
from armory.gateway.views.principal_lists import PrincipalLists
from armory.gateway.views.principal_view import PrincipalView
from armory.gateway.views.view import View
from armory.protocol.capabilities import HANDSHAKE
from armory.protocol.link import Owner
from armory.tasks import shielded, spawn, stop
from armory.threads import for_callers

VIEWS = 64
VIEW_TOOLS, OWN_TOOLS = 4_000, 2_000
VIEW_BYTES, OWN_BYTES = 4 << 20, (32 << 20) // VIEWS
"""A view takes one place of `VIEWS`, and a further one for each `VIEW_TOOLS` tools or `VIEW_BYTES`
bytes of it, and for each `OWN_TOOLS` or `OWN_BYTES` that only it has."""
EXTRA, EXTRA_BYTES = 5_000, 32 << 20
"""How many tools that only some callers have are searched, and their size as they came."""
R = TypeVar("R", ToolRecord, ListedRecord)
_Parts = tuple[tuple[str, str, int, str], ...]


class PlainPrivateTools:
    """Catalogs without rules, not searchable: the default of `Services.private_tools`."""

    def build_private(self, lists: Mapping[str, ServerLists], shared: Catalog) -> Catalog:
        """As `PrivateTools.build_private`."""
        return build_catalog(lists, previous=shared)[0]

    async def index_private(self, tools: tuple[ToolRecord, ...]) -> None:
        """As `PrivateTools.index_private`."""


def room_of(tools: int, own: int, *, size_bytes: int = 0, own_bytes: int = 0) -> int:
    """The weight of a view in the cache `VIEWS`.

    Args:
        tools: how many it has.
        own: how many of them only it has.
        size_bytes: size of all that it lists, as it came.
        own_bytes: size of those lists that are not everybody's.
    """
    whole = max(tools // VIEW_TOOLS, size_bytes // VIEW_BYTES)
    return min(VIEWS, 1 + whole + max(own // OWN_TOOLS, own_bytes // OWN_BYTES))


def _room(view: PrincipalView) -> int:
    size = sum(lists.size_bytes for lists in view.catalog.servers.values())
    tools, own = len(view.catalog.tools), len(view.aliases)
    return room_of(tools, own, size_bytes=size, own_bytes=view.own_bytes)


_Sized = Mapping[str, tuple[ToolRecord, int]]
"""Tools that only some callers have, and their sizes in bytes, by their names in the index."""


class _Extra(LRUCache[str, tuple[ToolRecord, int]]):
    """The private tools that are searchable; the oldest make room."""

    def __init__(self) -> None:
        super().__init__(EXTRA_BYTES, lambda sized: max(sized[1], -(-EXTRA_BYTES // EXTRA)))


class _Views(LRUCache[_Parts, PrincipalView]):
    """A cache of views by their parts; the least recently used make room."""

    def __init__(self) -> None:
        super().__init__(VIEWS, _room)

    def popitem(self) -> tuple[_Parts, PrincipalView]:
        """As `LRUCache.popitem`; the view's own data is released beside the event loop."""
        parts, view = super().popitem()
        view.end()
        return parts, view


@dataclass(slots=True)
class _MadeViews:
    """The views that were made, or are being made, from one base view."""

    base: View
    views: _Views = field(default_factory=_Views)
    making: dict[_Parts, asyncio.Task[PrincipalView]] = field(default_factory=dict[_Parts, Any])


@dataclass(frozen=True, slots=True)
class _ViewParts:
    """The parts of one caller's view.

    Attributes:
        lists: of the upstreams that offer it something else than everybody.
        parts: which lists these are.
        missing: why those of a server could not be fetched.
        own_bytes: size of those entries that are not everybody's, as they came.
    """

    lists: Mapping[str, ServerLists]
    parts: _Parts
    missing: Mapping[str, str]
    own_bytes: int


class PrincipalViews:
    """The views of single principals.

    Args:
        lists: what single principals have to themselves.
        declared: what upstreams list for clients that declare other capabilities.
        tools: makes catalogs of both, and makes their tools searchable.
    """

    def __init__(self, lists: PrincipalLists, declared: DeclaredLists, tools: PrivateTools) -> None:
        self._lists = lists
        self._declared = declared
        self._tools = tools
        self._made: _MadeViews | None = None
        self._extra = _Extra()
        self._indexed: frozenset[str] = frozenset()

    def view_swapped(self) -> None:
        """Another base view is served: drop the views that were made from the old one."""
        made, self._made = self._made, None
        for view in made.views.values() if made is not None else ():
            view.end()

    async def prepare(self, request: ClientRequest, *, current: bool) -> None:
        """Fetch a caller's lists; those that it is about to list must be current."""
        owner, endpoint, answers = request.owner, request.endpoint, request.answers
        declared = request.client.capabilities
        alone = answers & ~HANDSHAKE
        await self._lists.prepare(owner, endpoint, alone, declared, current=current)
        if current:
            await self._declared.prepare(answers, endpoint)

    async def view_off_loop(
        self, owner: Owner, endpoint: Endpoint, base: View, answers: int
    ) -> View:
        """As `view`, but long lists are processed in a thread, one caller's at a time."""
        wanted = self._wanted(owner, endpoint, base, answers)
        if wanted is None:
            return base
        made = self._made_from(base)
        if wanted.parts in made.views or not large(wanted.lists.values()):
            return self._view(made, wanted)
        making = made.making.get(wanted.parts)
        if making is None:
            making = spawn(self._make_beside(made, wanted), "a caller's view")
            made.making[wanted.parts] = making
        try:
            return await shielded(making)  # others may wait for it, too
        finally:
            del making  # whose error holds this frame by its trace

    async def close(self) -> None:
        """Stop building views."""
        await stop(*self._made.making.values() if self._made is not None else ())

    async def index(self) -> None:
        """Make private tools searchable; returns when that is done, or will be soon."""
        if self._extra.keys() - self._indexed:
            self._indexed = frozenset(self._extra)
            await self._tools.index_private(tuple(tool for tool, _ in self._extra.values()))

    def view(self, owner: Owner, endpoint: Endpoint, base: View, answers: int) -> View:
        """The view that serves a caller.

        Args:
            owner: the caller.
            endpoint: where it asks.
            base: what everybody else is served from.
            answers: what its client answers of what servers ask; see `protocol.capabilities`.
        """
        wanted = self._wanted(owner, endpoint, base, answers)
        return base if wanted is None else self._view(self._made_from(base), wanted)

    def _view(self, made: _MadeViews, wanted: _ViewParts) -> View:
        view = made.views.get(wanted.parts)
        return view or self._keep(made, wanted, *self._make(wanted, made.base))

    def _wanted(
        self, owner: Owner, endpoint: Endpoint, base: View, answers: int
    ) -> _ViewParts | None:
        """The parts of the caller's view; None: it gets the base view."""
        lists: dict[str, ServerLists] = {}
        parts: list[tuple[str, str, int, str]] = []
        missing: dict[str, str] = {}
        own: set[str] = set()
        own_bytes = 0
        for held in self._lists.lists_for(owner, endpoint, answers & ~HANDSHAKE):
            shared = base.catalog.servers.get(held.server)
            if shared is None:
                continue
            if held.lists is None and held.server not in self._lists.servers:
                continue  # until they are fetched, it gets the lists of clients like it
            own.add(held.server)
            if held.lists is shared:
                continue
            own_bytes += held.own_bytes
            why = held.failed if held.lists is None else ""
            parts.append((held.server, held.key, held.generation, why))
            if held.lists is None:
                missing[held.server] = why
            lists[held.server] = held.lists or replace(
                shared, tools=(), prompts=(), resources=(), templates=(), skills=()
            )
        for alike in self._declared.lists_for(answers, endpoint):
            if alike.server not in own and alike.lists is not None:
                parts.append((alike.server, alike.key, alike.generation, ""))
                lists[alike.server] = alike.lists
        return _ViewParts(lists, tuple(parts), missing, own_bytes) if parts else None

    def _made_from(self, base: View) -> _MadeViews:
        if self._made is None or self._made.base is not base:
            self._made = _MadeViews(base)
        return self._made

    async def _make_beside(self, made: _MadeViews, wanted: _ViewParts) -> PrincipalView:
        try:
            view, extra = await for_callers(self._make, wanted, made.base)
        finally:
            del made.making[wanted.parts]
        return self._keep(made, wanted, view, extra)

    def _keep(
        self, made: _MadeViews, wanted: _ViewParts, view: PrincipalView, extra: _Sized
    ) -> PrincipalView:
        made.views[wanted.parts] = view
        self._extra.update(extra)
        return view

    def _make(self, wanted: _ViewParts, base: View) -> tuple[PrincipalView, _Sized]:
        """(the view, its private tools, as many as are searchable); in any thread."""
        shared, lists = base.catalog, wanted.lists
        own = self._tools.build_private(lists, shared)
        aliases: dict[str, str] = {}
        for name, record in own.tools.items():
            if (known := shared.tools.get(name)) is not record and known != record:
                aliases[name] = f"{name}#{record.fingerprint[:16]}"
        searched = islice(aliases.items(), max(0, len(aliases) - EXTRA), None)
        extra = {alias: _sized(replace(own.tools[name], name=alias)) for name, alias in searched}
        place = {server: number for number, server in enumerate(shared.servers)}
        catalog = Catalog(
            shared.version,
            {**shared.servers, **lists},
            _merged(shared.tools, own.tools, place, lists.keys()),
            _merged(shared.prompts, own.prompts, place, lists.keys()),
            _merged(shared.resources, own.resources, place, lists.keys()),
            _merged(shared.templates, own.templates, place, lists.keys()),
            _merged(shared.skills, own.skills, place, lists.keys()),
        )
        return PrincipalView(catalog, base, aliases, wanted.missing, wanted.own_bytes), extra


def _sized(tool: ToolRecord) -> tuple[ToolRecord, int]:
    return tool, min(EXTRA_BYTES, len(marshal.dumps(dict(tool.definition), 0)))


def _merged(
    ours: Mapping[str, R], theirs: Mapping[str, R], place: Mapping[str, int], own: Set[str]
) -> dict[str, R]:
    """All records in the order of the servers; those of the servers in `own` come from `theirs`."""
    kept = {name: record for name, record in ours.items() if record.server not in own}
    return dict(sorted({**kept, **theirs}.items(), key=lambda item: place[item[1].server]))
