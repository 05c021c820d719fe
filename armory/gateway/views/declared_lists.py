"""Lists of upstreams that offer something else to clients which can be asked less.

Owns: finding out which upstreams do, what they offer to whom, and telling whose lists changed.
Never imports a transport. The gateway lists in an upstream's newest era, as a client that answers
everything; a client that does not, or that is served in the older one, is shown what the upstream
lists for one like it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace

from armory import tasks
from armory.domain.catalog import ServerLists, large
from armory.domain.catalog_builder import with_shared_entries
from armory.errors import ArmoryError
from armory.gateway.endpoint import Endpoint
from armory.gateway.ports import Pool
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.list_changes import changed_lists
from armory.gateway.views.view import View
from armory.logger import Logger
from armory.protocol.capabilities import EVERYTHING, HANDSHAKE, SHOWN_ALL, declaration
from armory.threads import for_callers

_log = Logger(__name__)
FETCH_S = 5.0
"""How long a client's first listing waits for the lists of its kind; later it is told of them."""
HURRY_S = 0.5
"""The same for who has waited in vain lately: while many upstreams start, each listing would wait
for those that came since the last one.
"""
PAUSE_S = 30.0
"""Pause between two fetches from one upstream for clients of one kind."""
AT_ONCE = 4
"""Fetches at a time: each starts a process where the upstream is one."""

Tell = Callable[[str, int, frozenset[str]], None]


@dataclass(slots=True)
class DeclaredList:
    """What one upstream offers to clients that answer the same.

    Attributes:
        server: the upstream.
        answers: what they answer, see `protocol.capabilities`.
        key: says whose it is, beside the keys of upstream sessions.
        lists: what it offers them; None: what it offers everybody, as far as is known.
        beside: the gateway's own lists when it was found out; None: it never was.
        until: before this moment it is not looked again.
        generation: another one for other lists.
        late: whether a client was shown the gateway's lists, since these had not come.
        task: looks.
    """

    server: str
    answers: int
    key: str
    lists: ServerLists | None = None
    beside: ServerLists | None = None
    until: float = 0.0
    generation: int = 0
    late: bool = False
    task: asyncio.Task[None] | None = None


class DeclaredLists:
    """What upstreams offer to clients that cannot be asked everything.

    Args:
        pool: lists as such a client would.
        tell: told of (server, answers, list-changed methods) where lists differ.
    """

    def __init__(self, pool: Pool, tell: Tell) -> None:
        self._pool = pool
        self._tell = tell
        self._view: View | None = None
        self._servers: tuple[str, ...] = ()
        self._plain: set[str] = set()
        self._held: dict[tuple[str, int], DeclaredList] = {}
        self._known: set[int] = set()
        self._in_vain: dict[int, float] = {}  # by answers: until when nobody waits for long again
        self._differing: set[int] = set()
        self._looks = asyncio.Semaphore(AT_ONCE)
        self._count = 0

    def view_swapped(self, view: View, private: frozenset[str]) -> None:
        """Take a new snapshot; other settings may mean other servers behind the same names. What
        is known of the others stays: finding it out again starts a process for each.

        Args:
            view: what is served from now on.
            private: upstreams that give each principal its own lists.
        """
        before, self._view = self._view, view
        servers = view.settings.by_capabilities.keys() & view.catalog.servers.keys()
        self._servers = tuple(sorted(servers - private))
        same = servers if before is None else _same(before.settings, view.settings, servers)
        self._plain &= same
        for held in tuple(self._held.values()):
            if held.server not in same:
                del self._held[held.server, held.answers]
                if held.task is not None:
                    held.task.cancel()
        self._count_differing()
        self._known.clear()

    @property
    def differ(self) -> bool:
        """Whether any client is known to be offered something else than others."""
        return bool(self._differing)

    def concern(self, answers: int, *, current: bool) -> bool:
        """Whether clients that answer so much may be offered something else than others.

        Args:
            answers: see `protocol.capabilities`.
            current: whether they are about to list, so that it has to be found out.
        """
        if EVERYTHING <= answers <= SHOWN_ALL:
            return False
        return answers in self._differing or (current and answers not in self._known)

    async def prepare(self, answers: int, endpoint: Endpoint) -> None:
        """Find out what such a client is offered, before it lists."""
        if EVERYTHING <= answers <= SHOWN_ALL:
            return
        now = time.monotonic()
        waits: dict[asyncio.Task[None], DeclaredList] = {}
        missing = False
        for server in self._servers_at(endpoint):
            kind = self._kind(server, answers)
            if kind is None or server in self._plain:
                continue
            held = self._entry(server, kind)
            if held.beside is not None and held.beside is self._shared(server):
                continue
            missing = True
            if held.task is None or held.task.done():
                pause = max(0.0, held.until - now)
                held.task = tasks.spawn(self._look(held, pause), f"what {server} offers to some")
                soon = not pause
            else:
                soon = held.until <= now
            if soon and not held.late:
                waits[held.task] = held
        if waits:
            await self._wait(waits, answers, hurry=now < self._in_vain.get(answers, 0.0))
        elif not missing and not endpoint.transparent:
            self._known.add(answers)

    async def _wait(
        self, waits: Mapping[asyncio.Task[None], DeclaredList], answers: int, *, hurry: bool
    ) -> None:
        _, late = await asyncio.wait(waits, timeout=HURRY_S if hurry else FETCH_S)
        for task, held in waits.items():
            held.late = task in late
        if late and not hurry:
            self._in_vain[answers] = time.monotonic() + PAUSE_S

    def held(self, answers: int, endpoint: Endpoint) -> list[DeclaredList]:
        """What such a client is offered in place of the gateway's lists, by server's name."""
        if answers not in self._differing:
            return []
        kinds = ((server, self._kind(server, answers)) for server in self._servers_at(endpoint))
        entries = (self._held.get((server, kind)) for server, kind in kinds if kind is not None)
        return [entry for entry in entries if entry is not None and entry.lists is not None]

    async def close(self) -> None:
        """Stop fetching."""
        looking = [held.task for held in self._held.values()]
        self._held.clear()
        await tasks.stop(*looking)

    # ---

    def _servers_at(self, endpoint: Endpoint) -> Iterable[str]:
        if not endpoint.transparent:
            return self._servers
        return (endpoint.name,) if endpoint.name in self._servers else ()

    def _kind(self, server: str, answers: int) -> int | None:
        """The answers by which its lists at an upstream are told from others; None: it sees there
        what the gateway sees.
        """
        if self._pool.era(server) == "legacy":
            bare = answers & ~HANDSHAKE
            return bare if bare < EVERYTHING else None
        if answers & HANDSHAKE and self._pool.era(server) and self._pool.may_shake_hands(server):
            return answers
        return None

    def _shared(self, server: str) -> ServerLists | None:
        return self._view.catalog.servers.get(server) if self._view is not None else None

    def _entry(self, server: str, answers: int) -> DeclaredList:
        held = self._held.get((server, answers))
        if held is None:
            held = DeclaredList(server, answers, f"\0{answers}")
            self._held[server, answers] = held
        return held

    async def _look(self, held: DeclaredList, pause_s: float) -> None:
        """List as such a client does; at upstreams of the older era first as one that answers
        nothing: where nothing differs then, nothing ever does.
        """
        server = held.server
        await asyncio.sleep(pause_s)
        async with self._looks:
            held.until = time.monotonic() + PAUSE_S
            handshake = bool(held.answers & HANDSHAKE)
            bare = self._entry(server, 0)
            try:
                if held.answers and not handshake and bare.beside is None:
                    await self._take(bare, await self._pool.fetch_lists_for(server, {}))
                    if server in self._plain:
                        return
                lists = await self._pool.fetch_lists_for(
                    server, declaration(held.answers), handshake=handshake
                )
            except ArmoryError as error:
                _log.info("declared_lists_not_fetched", upstream=server, error=error.message)
                return
            await self._take(held, lists)

    async def _take(self, held: DeclaredList, lists: ServerLists) -> None:
        shared = self._shared(held.server)
        if shared is None:
            return
        lists = replace(lists, groups=shared.groups)  # they are not looked at anew
        lists, differs, changed = await for_callers(
            large((lists, shared)), _looked_at, lists, shared, held.lists
        )
        if not (differs or held.answers or held.beside is not None):
            self._plain.add(held.server)
        known = held.beside is not None
        held.beside, held.lists = shared, lists if differs else None
        self._count += 1
        held.generation = self._count
        self._count_differing()
        late, held.late = held.late, False
        if changed and (late or known):
            self._tell(held.server, held.answers, changed)

    def _count_differing(self) -> None:
        held = self._held.values()
        kinds = {entry.answers for entry in held if entry.lists is not None}
        self._differing = kinds | {kind | HANDSHAKE for kind in kinds}


def _same(before: GatewaySettings, now: GatewaySettings, servers: Set[str]) -> Set[str]:
    """Those of some servers that are what they were."""
    if before is now:
        return servers
    was, are = before.by_capabilities, now.by_capabilities
    return {server for server in servers if server in was and was[server] == are[server]}


def _looked_at(
    lists: ServerLists, shared: ServerLists, before: ServerLists | None
) -> tuple[ServerLists, bool, frozenset[str]]:
    """The lists, with everybody's entries where they are the same; whether anything differs from
    everybody's; what differs from before.
    """
    lists, _ = with_shared_entries(lists, shared)
    differs = bool(changed_lists(shared, lists))
    return lists, differs, changed_lists(before or shared, lists if differs else shared)
