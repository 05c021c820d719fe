"""What single principals see of upstreams whose lists are private.

Owns: the lists of such an upstream as each caller has them, and the views made of them. Never
imports a transport or retrieval. Bounded everywhere: what was not used lately is fetched again.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog
from cachetools import LRUCache

from armory.domain.catalog import Catalog, ServerLists, build_catalog
from armory.domain.query import VisibleSet
from armory.domain.results import Selection
from armory.domain.tool import ListedRecord, ToolRecord
from armory.errors import ArmoryError
from armory.gateway.changes import PROMPTS, RESOURCES, TOOLS
from armory.gateway.ports import Pool
from armory.gateway.requests import ClientRequest, Endpoint
from armory.gateway.views.view import View
from armory.protocol.link import Owner
from armory.security.policy import VisibleCatalog
from armory.tasks import spawn

_log = structlog.get_logger(__name__)
FETCH_S = 5.0
"""So long a caller's first request waits for its lists; of later ones its clients are told."""
FRESH_S = 30.0
"""So long lists are believed at least, unless the upstream says that they changed."""
RETRY_S = 5.0
SETTLE_S = 0.05
"""Several announcements tend to come together."""
ENTRIES = 1_000
VIEWS = 64
EXTRA = 5_000
_JOINED_BYTES = 16 << 20

Build = Callable[[Mapping[str, ServerLists], Catalog], Catalog]
Tell = Callable[[str, str, frozenset[str]], None]
R = TypeVar("R", ToolRecord, ListedRecord)
_Parts = tuple[tuple[str, str, int], ...]


def _plain(lists: Mapping[str, ServerLists], base: Catalog) -> Catalog:
    return build_catalog(lists, previous=base)[0]


async def _nothing() -> None:
    """Nobody searches."""


@dataclass(slots=True)
class _Entry:
    """The lists of one upstream as one owner has them.

    Attributes:
        lists: None until they were had.
        until: from when on they are to be fetched again; 0: now.
        generation: another one for other lists.
        late: whether somebody was shown nothing in their place.
    """

    owner: Owner
    lists: ServerLists | None = None
    until: float = 0.0
    generation: int = 0
    late: bool = False
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Base:
    """The view that the personal ones are made from."""

    view: View
    views: LRUCache[_Parts, View] = field(default_factory=lambda: LRUCache[_Parts, View](VIEWS))


class PersonalView(View):
    """A view with some upstreams' lists as one principal has them.

    Args:
        catalog: the snapshot with its lists in it.
        base: the view that it was made from.
        aliases: exposed name -> name in the search index, for tools that only some callers have,
            or have with another definition.
    """

    def __init__(self, catalog: Catalog, base: View, aliases: Mapping[str, str]) -> None:
        super().__init__(
            catalog, base.policy.anew(), base.settings, base, joined_bytes=_JOINED_BYTES
        )
        self._aliases = aliases
        self._names = {alias: name for name, alias in aliases.items()}
        self._indexed = LRUCache[str, VisibleSet](64)

    def searchable(self, sight: VisibleCatalog) -> VisibleSet:
        """As `View.searchable`."""
        found = self._indexed.get(sight.tools.key)
        if found is None:
            names = frozenset(self._aliases.get(name, name) for name in sight.tools.names)
            found = self._indexed[sight.tools.key] = VisibleSet(names, f"{sight.tools.key}/own")
        return found

    def common(self, sight: VisibleCatalog) -> VisibleSet:
        """As `View.common`."""
        names = (name for name in sight.tools.names if name not in self._aliases)
        return VisibleSet(frozenset(names), f"{sight.tools.key}/common")

    def found(self, selection: Selection) -> Selection:
        """As `View.found`."""
        tools = self.catalog.tools
        matches = [
            (match, self._names.get(match.tool.name, match.tool.name))
            for match in selection.matches
        ]
        kept = tuple(replace(match, tool=tools[name]) for match, name in matches if name in tools)
        return replace(selection, matches=kept)


class PrincipalLists:
    """Lists and views of single principals.

    Args:
        pool: fetches lists on a caller's behalf.
        tell: told of (server, session key, list-changed methods) where lists differ.

    Attributes:
        servers: upstreams whose lists are private, by the present snapshot.
        build: makes a catalogue of some upstreams' lists.
        index: makes `extra` searchable; returns when it is, or soon.
    """

    def __init__(self, pool: Pool, tell: Tell) -> None:
        self._pool = pool
        self._tell = tell
        self.servers: frozenset[str] = frozenset()
        self.build: Build = _plain
        self.index: Callable[[], Awaitable[None]] = _nothing
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._extra: OrderedDict[str, ToolRecord] = OrderedDict()
        self._base: _Base | None = None
        self._count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def extra(self) -> Sequence[ToolRecord]:
        """Tools of single principals, under their names in the search index."""
        return tuple(self._extra.values())

    def look(self, view: View) -> None:
        """Find out whose lists are private in a new snapshot."""
        modes = view.settings.personal
        servers = view.catalog.servers
        self.servers = frozenset(
            server
            for server, mode in modes.items()
            if server in servers and (mode == "always" or _private(servers[server]))
        )
        for place in [place for place in self._entries if place[0] not in self.servers]:
            self._drop(place)

    # -- requests ----------------------------------------------------------------------------

    async def prepare(self, request: ClientRequest, base: View, *, current: bool) -> None:
        """Have the caller's lists at hand.

        Lists that were never had are waited for; so are those that may be out of date, if they
        must be `current`. An upstream that does not give them offers this caller nothing.
        """
        now = time.monotonic()
        waits: dict[asyncio.Task[None], _Entry] = {}
        for server, key, owner in self._places(request.owner, request.endpoint):
            entry = self._entry(server, key, owner)
            if entry.until > now:
                continue
            task = self._refresh(server, key, entry)
            # Once is enough: an upstream that is slow or down must not hold up calls to others.
            if not entry.late and (entry.lists is None or current):
                waits[task] = entry
        if not waits:
            return
        await asyncio.wait(waits, timeout=FETCH_S)
        for entry in waits.values():
            entry.late = entry.lists is None
        before = frozenset(self._extra)
        self.view(request, base)
        if self._extra.keys() - before:
            await self.index()

    def view(self, request: ClientRequest, base: View) -> View:
        """What the caller is served from."""
        return self.view_of(request.owner, request.endpoint, base)

    def view_of(self, owner: Owner, endpoint: Endpoint, base: View) -> View:
        """The same, between requests."""
        lists: dict[str, ServerLists] = {}
        parts: list[tuple[str, str, int]] = []
        for server, key, _ in self._places(owner, endpoint):
            entry = self._entry(server, key, owner)
            shared = base.catalog.servers.get(server)
            if shared is None:
                continue
            parts.append((server, key, entry.generation))
            lists[server] = entry.lists or replace(
                shared, tools=(), prompts=(), resources=(), templates=()
            )
        if not parts:
            return base
        if self._base is None or self._base.view is not base:
            self._base = _Base(base)
        views, place = self._base.views, tuple(parts)
        found = views.get(place)
        if found is None:
            found = views[place] = self._made(lists, base)
        return found

    def _places(self, owner: Owner, endpoint: Endpoint) -> list[tuple[str, str, Owner]]:
        wanted = self.servers
        if endpoint.transparent:
            wanted = wanted & {endpoint.name}
        places = [(server, self._pool.key(server, owner), owner) for server in sorted(wanted)]
        return [place for place in places if place[1]]  # "": the gateway's own session

    def _entry(self, server: str, key: str, owner: Owner) -> _Entry:
        entry = self._entries.get((server, key))
        if entry is None:
            while len(self._entries) >= ENTRIES:
                self._drop(next(iter(self._entries)))
            entry = self._entries[server, key] = _Entry(owner)
        self._entries.move_to_end((server, key))
        return entry

    def _made(self, lists: Mapping[str, ServerLists], base: View) -> View:
        shared = base.catalog
        own = self.build(lists, shared)
        aliases: dict[str, str] = {}
        for name, record in own.tools.items():
            if shared.tools.get(name) != record:
                aliases[name] = alias = f"{name}#{record.fingerprint[:16]}"
                self._extra[alias] = replace(record, name=alias)
                self._extra.move_to_end(alias)
        while len(self._extra) > EXTRA:
            self._extra.popitem(last=False)
        place = {server: number for number, server in enumerate(shared.servers)}
        catalog = Catalog(
            shared.version,
            {**shared.servers, **lists},
            _merged(shared.tools, own.tools, place, lists.keys()),
            _merged(shared.prompts, own.prompts, place, lists.keys()),
            _merged(shared.resources, own.resources, place, lists.keys()),
            _merged(shared.templates, own.templates, place, lists.keys()),
        )
        return PersonalView(catalog, base, aliases)

    # -- news --------------------------------------------------------------------------------

    def heard(self, server: str, key: str) -> None:
        """The lists on one session changed; on the gateway's own perhaps everybody's did."""
        if server not in self.servers:
            return
        for (name, owner), entry in tuple(self._entries.items()):
            if name == server and key in ("", owner):
                entry.until = 0.0
                if entry.lists is not None:
                    self._refresh(name, owner, entry)

    def release(self, session_id: str) -> None:
        """A legacy session ended: forget what was fetched for it alone."""
        for place, entry in tuple(self._entries.items()):
            if entry.owner.session_id == session_id and place[1] != entry.owner.principal.key:
                self._drop(place)

    async def close(self) -> None:
        """Stop fetching."""
        for place in tuple(self._entries):
            self._drop(place)

    def _drop(self, place: tuple[str, str]) -> None:
        entry = self._entries.pop(place)
        if entry.task is not None:
            entry.task.cancel()

    def _refresh(self, server: str, key: str, entry: _Entry) -> asyncio.Task[None]:
        if entry.task is None or entry.task.done():
            work = self._fetch(server, key, entry)
            entry.task = spawn(work, f"lists of {server} for one principal")
        return entry.task

    async def _fetch(self, server: str, key: str, entry: _Entry) -> None:
        while True:
            entry.until = time.monotonic() + RETRY_S  # 0 again: news came meanwhile
            try:
                lists = await self._pool.fetch_lists(server, entry.owner)
            except ArmoryError as error:
                _log.warning("private_lists_not_fetched", upstream=server, error=error.message)
                entry.until = time.monotonic() + RETRY_S
                return
            self._take(server, key, entry, lists)
            if entry.until:
                ttls = [ttl for ttl, _ in lists.cache.values()]
                entry.until = time.monotonic() + max(FRESH_S, min(ttls, default=0) / 1_000)
                return
            await asyncio.sleep(SETTLE_S)

    def _take(self, server: str, key: str, entry: _Entry, lists: ServerLists) -> None:
        before, entry.lists = entry.lists, lists
        changed = _changed(before or ServerLists(), lists)
        late, entry.late = entry.late, False
        if before is None or changed:
            self._count += 1
            entry.generation = self._count
        if changed and (before is not None or late):
            self._tell(server, key, changed)


def _private(lists: ServerLists) -> bool:
    return any(scope == "private" for _, scope in lists.cache.values())


def _changed(before: ServerLists, now: ServerLists) -> frozenset[str]:
    pairs = (
        (TOOLS, [*before.tools], [*now.tools]),
        (PROMPTS, [*before.prompts], [*now.prompts]),
        (RESOURCES, [*before.resources, *before.templates], [*now.resources, *now.templates]),
    )
    return frozenset(method for method, old, new in pairs if old != new)


def _merged(
    ours: Mapping[str, R], theirs: Mapping[str, R], place: Mapping[str, int], own: Set[str]
) -> dict[str, R]:
    """Records in the order of the servers, those of `own` servers taken from `theirs`."""
    kept = {name: record for name, record in ours.items() if record.server not in own}
    return dict(sorted({**kept, **theirs}.items(), key=lambda item: place[item[1].server]))
