"""Lists of upstreams that give each principal its own: fetched, cached, compared.

Owns: fetching them, how long they are believed, and telling whose lists changed. Never imports a
transport.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from armory import tasks
from armory.domain.catalog import ServerLists, large
from armory.domain.catalog_builder import with_shared_entries
from armory.errors import ArmoryError, UpstreamUnavailable
from armory.gateway.endpoint import Endpoint
from armory.gateway.ports import Pool
from armory.gateway.views.list_changes import changed_lists
from armory.gateway.views.list_store import ENTRIES, SETTLE_S, HeldLists, ListStore
from armory.gateway.views.view import View
from armory.logger import Logger
from armory.protocol.capabilities import answers_of
from armory.protocol.link import Owner
from armory.protocol.session_events import is_of_one_client
from armory.security.policy import Policy
from armory.threads import for_callers_if

_log = Logger(__name__)
FETCH_S = 3.0
"""How long a caller's first request waits for its lists; those that come later are announced."""
FRESH_S = 30.0
"""How long lists are taken for current, unless the upstream says that they changed."""
RETRY_S = 5.0
AWAITED_S = 900.0
"""How long a client may take to ask for lists that changed on a session which it shares."""

Tell = Callable[[str, str, frozenset[str]], None]


class PrincipalLists:
    """The lists that upstreams show single principals.

    Args:
        pool: fetches lists on a caller's behalf.
        tell: called with (server, session key, list-changed methods) where lists differ.

    Attributes:
        servers: upstreams whose lists are private in the present snapshot.
    """

    def __init__(self, pool: Pool, tell: Tell) -> None:
        self._pool = pool
        self._tell = tell
        self.servers: frozenset[str] = frozenset()
        self._own: dict[str, set[str]] = {}  # servers by client session
        self._separate: dict[str, dict[str, float]] = {}  # by principal, server: last announced at
        self._held = ListStore()
        self._policy = Policy()
        self._shared: Mapping[str, ServerLists] = {}
        self._latest: dict[str, ServerLists] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._held)

    def view_swapped(self, view: View) -> None:
        """Determine which upstreams' lists are private in a new snapshot."""
        modes, self._policy = view.settings.personal, view.policy
        before, self._shared = self._shared, view.catalog.servers
        servers = self._shared
        self.servers = frozenset(
            server
            for server, mode in modes.items()
            if server in servers and (mode == "always" or _private(servers[server]))
        )
        own = ((session, of & servers.keys()) for session, of in self._own.items())
        self._own = {session: of for session, of in own if of}
        auto = view.settings.by_capabilities.keys() & servers.keys()
        separate = (
            (key, {server: at for server, at in of.items() if server in auto})
            for key, of in self._separate.items()
        )
        self._separate = {key: of for key, of in separate if of}
        for held in self._held:
            private = held.server in self.servers or held.server in self._servers_of(held.owner)
            if held.server not in servers or not private:
                self._held.drop(held)
                continue
            if held.key in self._separate and before.get(held.server) is not servers[held.server]:
                held.until = 0.0  # perhaps everybody has the same by now
            if held.lists is servers[held.server]:
                held.own_bytes = 0
            elif held.lists is not None:
                held.own_bytes = held.own_bytes or held.lists.size_bytes  # everybody's of before
        self._held.trim()
        remaining = {held.server for held in self._held}
        self._latest = {key: lists for key, lists in self._latest.items() if key in remaining}

    # -- requests ----------------------------------------------------------------------------

    def has(self, session_id: str | None, principal: str) -> bool:
        """Whether there may be private lists: of any caller, of the client of this session, or of
        the principal with that key.
        """
        return bool(self.servers) or session_id in self._own or principal in self._separate

    def separate_client(self, server: str, owner: Owner, view: View) -> None:
        """Serve a client with the lists of its own session, which announced a change, instead of
        the shared ones.

        Args:
            server: the upstream.
            owner: the client, which has the session to itself.
            view: what it was served from until now.
        """
        shared = view.catalog.servers.get(server)
        if owner.session_id is None or shared is None or server in self._servers_of(owner):
            return
        self._own.setdefault(owner.session_id, set()).add(server)
        answers = answers_of(owner.capabilities)
        held = self._held.entry(server, self._key(server, owner), owner, answers)
        self._count += 1
        held.lists, held.own_bytes, held.generation = shared, 0, self._count
        self._refresh(held)

    def separate_principal(self, server: str, key: str, view: View) -> bool:
        """Serve the clients of one principal, who share a session that announced a change, with the
        lists of that session until these equal the shared ones again.

        Args:
            server: the upstream.
            key: of the session.
            view: what they were served from until now.

        Returns:
            Whether it is news: their clients have not been notified yet of different lists.
        """
        auto = view.settings.by_capabilities.keys() & view.catalog.servers.keys() - self.servers
        if not key or is_of_one_client(key) or server not in auto:  # the gateway's own
            return False
        if key not in self._separate and len(self._separate) >= ENTRIES:
            del self._separate[next(iter(self._separate))]
        of = self._separate.setdefault(key, {})
        news = server not in of
        of[server] = time.monotonic()
        return news

    def _servers_of(self, owner: Owner) -> frozenset[str]:
        own = self._own.get(owner.session_id) if owner.session_id is not None else None
        servers = self.servers | own if own else self.servers
        key = owner.principal.key
        separate = self._separate.get(key)
        if not separate:
            return servers
        return servers | {server for server in separate if self._key(server, owner) == key}

    async def prepare(
        self,
        owner: Owner,
        endpoint: Endpoint,
        answers: int = 0,
        capabilities: Mapping[str, Any] | None = None,
        *,
        current: bool,
    ) -> None:
        """Fetch a caller's lists before they are needed.

        Lists that were never fetched are waited for; so are those that may be out of date, if they
        must be `current`. An upstream whose lists cannot be fetched offers this caller nothing.
        """
        now = time.monotonic()
        waits: dict[asyncio.Task[None], HeldLists] = {}
        for held in self.lists_for(owner, endpoint, answers):
            self._held.set_owner(held, owner)  # its access token may be newer
            held.capabilities = capabilities
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

    def lists_for(self, owner: Owner, endpoint: Endpoint, answers: int = 0) -> list[HeldLists]:
        """The private lists of a caller at an endpoint, in the order of the servers' names."""
        servers = self._servers_of(owner)
        if endpoint.transparent:
            servers = servers & {endpoint.name}
        may_allow = self._policy.may_allow  # nothing is asked for who could be shown nothing of it
        servers = sorted(server for server in servers if may_allow(owner.principal, server))
        keys = ((server, self._key(server, owner)) for server in servers)
        entry = self._held.entry
        return [entry(server, key, owner, answers) for server, key in keys if key]  # "": ours

    def _key(self, server: str, owner: Owner) -> str:
        """As `Pool.key`; also for an upstream that was removed, until the next snapshot."""
        try:
            return self._pool.key(server, owner)
        except UpstreamUnavailable:
            return owner.principal.key

    # -- news --------------------------------------------------------------------------------

    def on_list_changed(self, server: str, key: str) -> None:
        """The lists on one session changed; on the gateway's own session the shared
        ones may have.
        """
        for held in self._held.of(server, key) if key else self._held:
            if held.server != server:
                continue
            held.until = 0.0
            if held.lists is not None:
                self._refresh(held, announced=True)

    def on_login(self, concerns: Callable[[str, str], bool]) -> None:
        """Fetch the lists of somebody who logged in or out anew.

        Args:
            concerns: whether lists of this upstream and person are affected.
        """
        for held in self._held:
            if concerns(held.server, held.owner.principal.person):
                held.until, held.outdated = 0.0, True
                self._refresh(held)

    def release(self, session_id: str) -> None:
        """A legacy session ended: forget the lists that were fetched for it alone, and remove its
        client from the others, since a reference to it would keep the whole session in memory.
        """
        self._own.pop(session_id, None)
        for held in self._held.release_client(session_id):
            owner = held.owner
            if held.key != owner.principal.key:
                self._held.drop(held)
            else:
                if held.capabilities is None:
                    held.capabilities = owner.capabilities
                held.owner = Owner(owner.principal)

    async def close(self) -> None:
        """Cancel all fetches."""
        fetching = [held.task for held in self._held]
        self._held.clear()
        await tasks.stop(*fetching)

    def _refresh(self, held: HeldLists, *, announced: bool = False) -> asyncio.Task[None]:
        if held.task is None or held.task.done():
            pause_s = held.pauses.next_s() if announced else 0.0
            # the first is fetched at once: whoever hears of it with us may list already
            work = self._fetch(held, pause_s if pause_s > SETTLE_S else 0.0)
            held.task = tasks.spawn(work, f"private lists of {held.server}")
        return held.task

    async def _fetch(self, held: HeldLists, pause_s: float) -> None:
        while True:
            if pause_s:
                await asyncio.sleep(pause_s)
            held.until = time.monotonic() + RETRY_S  # 0 again: news came meanwhile
            try:
                lists = await self._pool.fetch_lists(held.server, held.owner, held.capabilities)
            except ArmoryError as error:
                held.outdated, held.failed = False, error.told
                _log.warning("private_lists_not_fetched", upstream=held.server, error=error.message)
                held.until = time.monotonic() + RETRY_S
                return
            before = held.lists
            shared, latest = self._shared.get(held.server), self._latest.get(held.server)
            lists, held.own_bytes, changed, held.same = await for_callers_if(
                large((lists,)), _looked_at, lists, before, shared, latest
            )
            self._held.move(held, self._key(held.server, held.owner))
            self._take(held, lists, changed, first=before is None)
            self._rejoin(held)
            held.pauses.done(news=bool(changed))
            if held.until:
                ttls = [ttl for ttl, _ in lists.cache.values()]
                held.until = time.monotonic() + max(FRESH_S, min(ttls, default=0) / 1_000)
                return
            pause_s = held.pauses.next_s()

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
        self._held.trim(held)

    def _rejoin(self, held: HeldLists) -> None:
        """Serve a principal with the shared lists again if its sessions list the same, once a
        session that listed something else has become idle without being asked again.
        """
        server, key = held.server, held.key
        of = self._separate.get(key, {})
        if server not in of or time.monotonic() - of[server] < AWAITED_S:
            return
        if all(it.same for it in self._held.of(server, key)):
            del of[server]
            if not of:
                del self._separate[key]


def _private(lists: ServerLists) -> bool:
    return any(scope == "private" for _, scope in lists.cache.values())


def _looked_at(
    lists: ServerLists,
    before: ServerLists | None,
    shared: ServerLists | None,
    latest: ServerLists | None,
) -> tuple[ServerLists, int, frozenset[str], bool]:
    """(the lists, sharing equal entries with others; the bytes that are not shared; which lists
    differ from before; whether all equal the shared ones).
    """
    own = lists.entries
    if latest is not None:
        lists, _ = with_shared_entries(lists, latest)
    if shared is not None:
        lists, own = with_shared_entries(lists, shared)
    own_bytes = lists.size_bytes * own // max(1, lists.entries)
    same = shared is not None and not changed_lists(shared, lists)
    return lists, own_bytes, changed_lists(before or ServerLists(), lists), same
