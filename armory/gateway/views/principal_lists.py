"""Lists of upstreams that give each principal its own, as single principals have them.

Owns: fetching them, how long they are believed, and telling whose lists changed. Never imports a
transport. Bounded: what was not used lately is fetched again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from armory import tasks
from armory.domain.catalog import ServerLists, large, same_entries
from armory.domain.catalog_builder import taken_over
from armory.errors import ArmoryError, UpstreamUnavailable
from armory.gateway.endpoint import Endpoint
from armory.gateway.ports import Pool
from armory.gateway.views.view import View
from armory.logger import Logger
from armory.protocol.link import Owner
from armory.protocol.methods import (
    GROUPS_CHANGED,
    PROMPTS_CHANGED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
    answers_of,
)
from armory.threads import for_callers, let_go

_log = Logger(__name__)
FETCH_S = 5.0
"""So long a caller's first request waits for its lists; of later ones its clients are told."""
FRESH_S = 30.0
"""So long lists are believed at least, unless the upstream says that they changed."""
RETRY_S = 5.0
SETTLE_S = 0.05
"""Several announcements tend to come together."""
ENTRIES = 1_000
OWN_BYTES = 32 << 20
"""Of all lists that are not everybody's, as they came; as objects they are some four times that."""

Tell = Callable[[str, str, frozenset[str]], None]


@dataclass(slots=True)
class HeldLists:
    """The lists of one upstream as one owner has them.

    Attributes:
        server: the upstream.
        key: of the session that serves the owner (`Pool.key`).
        owner: whose they are.
        answers: what its client answers: an upstream may list by that, too.
        capabilities: what that client declared; None: what `owner` did.
        lists: None until they were had.
        until: from when on they are to be fetched again; 0: now.
        own_bytes: of what everybody has not, likewise.
        generation: another one for other lists.
        failed: why they could not be had when they were last asked for; "": they could.
        late: whether somebody was shown nothing in their place.
        outdated: whether their owner logged in or out since: they are not shown any more.
        task: fetches them.
    """

    server: str
    key: str
    owner: Owner
    answers: int = 0
    capabilities: Mapping[str, Any] | None = None
    lists: ServerLists | None = None
    until: float = 0.0
    own_bytes: int = 0
    generation: int = 0
    failed: str = ""
    late: bool = False
    outdated: bool = False
    task: asyncio.Task[None] | None = None


class PrincipalLists:
    """The lists of single principals.

    Args:
        pool: fetches lists on a caller's behalf.
        tell: told of (server, session key, list-changed methods) where lists differ.

    Attributes:
        servers: upstreams whose lists are private, by the present snapshot.
    """

    def __init__(self, pool: Pool, tell: Tell) -> None:
        self._pool = pool
        self._tell = tell
        self.servers: frozenset[str] = frozenset()
        self._own: dict[str, set[str]] = {}
        self._held: OrderedDict[tuple[str, str, int], HeldLists] = OrderedDict()
        self._shared: Mapping[str, ServerLists] = {}
        self._latest: dict[str, ServerLists] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._held)

    def view_swapped(self, view: View) -> None:
        """Find out whose lists are private in a new snapshot."""
        modes = view.settings.personal
        self._shared = servers = view.catalog.servers
        self.servers = frozenset(
            server
            for server, mode in modes.items()
            if server in servers and (mode == "always" or _private(servers[server]))
        )
        own = ((session, of & servers.keys()) for session, of in self._own.items())
        self._own = {session: of for session, of in own if of}
        for held in tuple(self._held.values()):
            if held.server not in self._of(held.owner) or held.server not in servers:
                self._drop(held)
            elif held.lists is servers[held.server]:
                held.own_bytes = 0
            elif held.lists is not None:
                held.own_bytes = held.own_bytes or held.lists.size_bytes  # everybody's of before
        self._bound()
        remaining = {held.server for held in self._held.values()}
        self._latest = {key: lists for key, lists in self._latest.items() if key in remaining}

    # -- requests ----------------------------------------------------------------------------

    def has(self, session_id: str | None) -> bool:
        """Whether a caller may have lists to itself: any, or the client of this session."""
        return bool(self.servers) or session_id in self._own

    def own(self, server: str, owner: Owner, view: View) -> None:
        """The lists changed on a session that one client has to itself: from now on it sees those.

        Args:
            server: the upstream.
            owner: the client.
            view: what it was served from until now.
        """
        shared = view.catalog.servers.get(server)
        if owner.session_id is None or shared is None or server in self._of(owner):
            return
        self._own.setdefault(owner.session_id, set()).add(server)
        answers = answers_of(owner.capabilities)
        held = self._entry(server, self._key(server, owner), owner, answers)
        self._count += 1
        held.lists, held.own_bytes, held.generation = shared, 0, self._count
        self._refresh(held)

    def _of(self, owner: Owner) -> frozenset[str]:
        own = self._own.get(owner.session_id) if owner.session_id is not None else None
        return self.servers | own if own else self.servers

    async def prepare(
        self,
        owner: Owner,
        endpoint: Endpoint,
        answers: int = 0,
        capabilities: Mapping[str, Any] | None = None,
        *,
        current: bool,
    ) -> None:
        """Have a caller's lists at hand.

        Lists that were never had are waited for; so are those that may be out of date, if they
        must be `current`. An upstream that does not give them offers this caller nothing.
        """
        now = time.monotonic()
        waits: dict[asyncio.Task[None], HeldLists] = {}
        for held in self.held(owner, endpoint, answers):
            held.owner, held.capabilities = owner, capabilities  # its access token may be newer
            missing = held.lists is None or held.outdated
            first = missing and held.task is not None and not held.task.done()
            if held.until > now and not first:
                continue
            task = self._refresh(held)
            # Once is enough: an upstream that is slow or down must not hold up calls to others.
            if not held.late and (missing or current):
                waits[task] = held
        if waits:
            await asyncio.wait(waits, timeout=FETCH_S)
            for held in waits.values():
                held.late = held.lists is None

    def held(self, owner: Owner, endpoint: Endpoint, answers: int = 0) -> list[HeldLists]:
        """What a caller has to itself at an endpoint, in the order of the servers' names."""
        servers = self._of(owner)
        if endpoint.transparent:
            servers = servers & {endpoint.name}
        keys = ((server, self._key(server, owner)) for server in sorted(servers))
        entry = self._entry
        return [entry(server, key, owner, answers) for server, key in keys if key]  # "": ours

    def _key(self, server: str, owner: Owner) -> str:
        """As `Pool.key`; also of an upstream that was removed, until the next snapshot."""
        try:
            return self._pool.key(server, owner)
        except UpstreamUnavailable:
            return owner.principal.key

    def _entry(self, server: str, key: str, owner: Owner, answers: int) -> HeldLists:
        held = self._held.get((server, key, answers))
        if held is None:
            while len(self._held) >= ENTRIES:
                self._drop(next(iter(self._held.values())))
            held = self._held[server, key, answers] = HeldLists(server, key, owner, answers)
        self._held.move_to_end((server, key, answers))
        return held

    # -- news --------------------------------------------------------------------------------

    def on_list_changed(self, server: str, key: str) -> None:
        """The lists on one session changed; on the gateway's own perhaps everybody's did."""
        for held in tuple(self._held.values()):
            if held.server == server and key in ("", held.key):
                held.until = 0.0
                if held.lists is not None:
                    self._refresh(held)

    def on_login(self, concerns: Callable[[str, str], bool]) -> None:
        """Somebody logged in or out: it is shown something else.

        Args:
            concerns: whether it is about this upstream and person.
        """
        for held in tuple(self._held.values()):
            if concerns(held.server, held.owner.principal.person):
                held.until, held.outdated = 0.0, True
                self._refresh(held)

    def release(self, session_id: str) -> None:
        """A legacy session ended: forget what was fetched for it alone."""
        self._own.pop(session_id, None)
        for held in tuple(self._held.values()):
            if held.owner.session_id == session_id and held.key != held.owner.principal.key:
                self._drop(held)

    async def close(self) -> None:
        """Stop fetching."""
        fetching = [held.task for held in self._held.values()]
        self._held.clear()
        await tasks.stop(*fetching)

    def _drop(self, held: HeldLists) -> None:
        del self._held[held.server, held.key, held.answers]
        if held.task is not None:
            held.task.cancel()
        lists, held.lists = held.lists, None
        if lists is not None and held.own_bytes:
            entries = list(chain(*lists.sequences()))
            del lists
            let_go(entries)

    def _refresh(self, held: HeldLists) -> asyncio.Task[None]:
        if held.task is None or held.task.done():
            held.task = tasks.spawn(self._fetch(held), f"private lists of {held.server}")
        return held.task

    async def _fetch(self, held: HeldLists) -> None:
        while True:
            held.until = time.monotonic() + RETRY_S  # 0 again: news came meanwhile
            try:
                lists = await self._pool.fetch_lists(held.server, held.owner, held.capabilities)
            except ArmoryError as error:
                held.outdated, held.failed = False, error.message
                _log.warning("private_lists_not_fetched", upstream=held.server, error=error.message)
                held.until = time.monotonic() + RETRY_S
                return
            before = held.lists
            shared, latest = self._shared.get(held.server), self._latest.get(held.server)
            lists, held.own_bytes, changed = await for_callers(
                large((lists,)), _looked_at, lists, before, shared, latest
            )
            self._place(held)
            self._take(held, lists, changed, first=before is None)
            if held.until:
                ttls = [ttl for ttl, _ in lists.cache.values()]
                held.until = time.monotonic() + max(FRESH_S, min(ttls, default=0) / 1_000)
                return
            await asyncio.sleep(SETTLE_S)

    def _place(self, held: HeldLists) -> None:
        """Keep it under the key of the session that serves its owner, found out just now."""
        key = self._key(held.server, held.owner)
        place = (held.server, held.key, held.answers)
        if key != held.key and self._held.get(place) is held:
            del self._held[place]
            held.key = key
            self._held.setdefault((held.server, key, held.answers), held)

    def _take(
        self, held: HeldLists, lists: ServerLists, changed: frozenset[str], *, first: bool
    ) -> None:
        held.lists, held.failed = lists, ""
        held.outdated = held.until == 0.0
        late, held.late = held.late, False
        if first or changed:
            self._count += 1
            held.generation = self._count
        if changed and (late or not first):
            self._tell(held.server, held.key, changed)
        self._latest[held.server] = lists
        self._bound(held)

    def _bound(self, taken: HeldLists | None = None) -> None:
        """Let go of what was not used for longest; lists that several have count once."""
        total = sum({id(held.lists): held.own_bytes for held in self._held.values()}.values())
        holders = Counter(id(held.lists) for held in self._held.values())
        for held in tuple(self._held.values()):
            if total <= OWN_BYTES:
                return
            fetching = held.task is not None and not held.task.done()
            if held is not taken and held.own_bytes and not fetching:
                holders[id(held.lists)] -= 1
                total -= 0 if holders[id(held.lists)] else held.own_bytes
                self._drop(held)


def _private(lists: ServerLists) -> bool:
    return any(scope == "private" for _, scope in lists.cache.values())


def _looked_at(
    lists: ServerLists,
    before: ServerLists | None,
    shared: ServerLists | None,
    latest: ServerLists | None,
) -> tuple[ServerLists, int, frozenset[str]]:
    """The lists, with the entries of others where they are the same; how many of their bytes not
    everybody has; what differs from before.
    """
    own = lists.entries
    if latest is not None:
        lists, _ = taken_over(lists, latest)
    if shared is not None:
        lists, own = taken_over(lists, shared)
    own_bytes = lists.size_bytes * own // max(1, lists.entries)
    return lists, own_bytes, changed_lists(before or ServerLists(), lists)


def changed_lists(before: ServerLists, now: ServerLists) -> frozenset[str]:
    """The list-changed methods that tell of what differs between two sets of lists."""
    pairs = (
        (TOOLS_CHANGED, before.tools, now.tools),
        (PROMPTS_CHANGED, before.prompts, now.prompts),
        (RESOURCES_CHANGED, before.resources, now.resources),
        (RESOURCES_CHANGED, before.templates, now.templates),
        (RESOURCES_CHANGED, before.skills, now.skills),
    )
    changed = {method for method, old, new in pairs if not same_entries(old, new)}
    if [*before.groups] != [*now.groups]:
        changed.add(GROUPS_CHANGED)
    return frozenset(changed)
