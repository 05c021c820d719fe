"""Lists of upstreams that depend on the client's declared capabilities.

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
from armory.threads import for_callers_if

_log = Logger(__name__)
FETCH_S = 3.0
"""How long a client's first listing waits for the lists of its kind; those that come later are
announced to it. Some clients give the listing five seconds (`claude mcp list`, Qwen Code)."""
HURRY_S = 0.5
"""The same after a listing waited in vain: while many upstreams start, each listing would wait for
those that were added since the last one."""
PAUSE_S = 30.0
"""Pause between two fetches from one upstream for clients of one kind."""
AT_ONCE = 4
"""Fetches at a time: each starts a process where the upstream is one."""

Tell = Callable[[str, int, frozenset[str]], None]


@dataclass(slots=True)
class DeclaredList:
    """The lists of one upstream for clients that answer the same kinds of questions.

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
    """The lists for clients that do not answer every kind of question.

    Args:
        pool: lists as such a client would.
        tell: called with (server, answers, list-changed methods) where lists differ.
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
        """Take a new snapshot. Servers that are no longer the same are forgotten; the others stay,
        since probing them again would start a process for each.

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
    def any_differ(self) -> bool:
        """Whether lists are known to differ for any client."""
        return bool(self._differing)

    def concern(self, answers: int, *, current: bool) -> bool:
        """Whether clients with these answers may be offered other lists than everybody.

        Args:
            answers: see `protocol.capabilities`.
            current: whether they are about to list, so that it has to be found out.
        """
        if EVERYTHING <= answers <= SHOWN_ALL:
            return False
        return answers in self._differing or (current and answers not in self._known)

    async def prepare(self, answers: int, endpoint: Endpoint) -> None:
        """Fetch the lists for such a client, before it lists."""
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

    def lists_for(self, answers: int, endpoint: Endpoint) -> list[DeclaredList]:
        """The lists for such a client that replace the shared ones, by server."""
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
        """The part of `answers` that this upstream's lists depend on; None: such clients get the
        shared lists.
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
        """Fetch the lists as such a client; at legacy upstreams first as one that answers no
        question at all: if nothing differs then, it never does.
        """
        server = held.server
        await asyncio.sleep(pause_s)
        async with self._looks:
            held.until = time.monotonic() + PAUSE_S
            handshake = bool(held.answers & HANDSHAKE)
            bare = self._entry(server, 0)
            try:
                if held.answers and not handshake and bare.beside is None:
                    await self._take(bare, await self._bare(server))
                    if server in self._plain:
                        return
                if held.answers:
                    declared = declaration(held.answers)
                    lists = await self._pool.fetch_lists_for(server, declared, handshake=handshake)
                else:
                    lists = await self._bare(server)
            except ArmoryError as error:
                _log.info("declared_lists_not_fetched", upstream=server, error=error.message)
                return
            await self._take(held, lists)

    async def _bare(self, server: str) -> ServerLists:
        """The lists for a client that declares nothing: the shared ones, if a new session that
        declares everything lists the same as one that declares nothing. For some servers know all
        of their tools only a while after their start.
        """
        lists = await self._pool.fetch_lists_for(server, {})
        shared = self._shared(server)
        if shared is None or not await _differ(lists, shared):
            return lists
        as_new = await self._pool.fetch_lists_for(server, declaration(EVERYTHING))
        if await _differ(lists, as_new):
            return lists
        return self._shared(server) or lists

    async def _take(self, held: DeclaredList, lists: ServerLists) -> None:
        shared = self._shared(held.server)
        if shared is None:
            return
        lists = replace(lists, groups=shared.groups)  # they are not looked at anew
        lists, differs, changed = await for_callers_if(
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
    """Those of the servers that have not changed."""
    if before is now:
        return servers
    was, are = before.by_capabilities, now.by_capabilities
    return {server for server in servers if server in was and was[server] == are[server]}


async def _differ(lists: ServerLists, others: ServerLists) -> bool:
    """Whether two lists differ, their groups apart."""
    lists = replace(lists, groups=others.groups)
    return bool(await for_callers_if(large((lists, others)), changed_lists, lists, others))


def _looked_at(
    lists: ServerLists, shared: ServerLists, before: ServerLists | None
) -> tuple[ServerLists, bool, frozenset[str]]:
    """(the lists, sharing equal entries with the shared ones; whether they differ from the shared
    ones; which lists differ from before).
    """
    lists, _ = with_shared_entries(lists, shared)
    differs = bool(changed_lists(shared, lists))
    return lists, differs, changed_lists(before or shared, lists if differs else shared)
