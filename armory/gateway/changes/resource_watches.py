"""Resources that clients subscribed to, by upstream session.

Owns: `ResourceWatches`: telling an upstream session which resources somebody behind it wants to
hear of. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from armory.domain.limits import Holdings
from armory.errors import ArmoryError, InvalidRequest
from armory.gateway.ports import Pool
from armory.gateway.subscription import Subscription
from armory.logger import Logger
from armory.protocol.link import Owner, Refused
from armory.tasks import Tasks

_log = Logger(__name__)
MOST = 1_000
"""Resources that one client may watch."""
_URI_CHARS = 8_192
"""The longest URI of one."""
_ALL_CHARS = 64 << 20
"""Characters of the URIs that all clients watch together; one caller's may have half of it."""
OF_ONE_CALLER, OF_ONE_SESSION = 5_000, 10_000
"""Resources that all clients of one caller may watch, and different ones that may be watched behind
one session of an upstream: each further one goes through them all, and a modern upstream is given
them all again."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
"""Pauses between attempts at telling the new sessions of an upstream what is watched."""
_LEAVING_S, _TELLING_S = 1.0, 60.0
"""How long a leaving client waits until upstreams are told, and how long telling one may take."""
_Key = tuple[str, str]
"""An upstream, and the key of one of its sessions."""


class ResourceWatches:
    """The watched resources of each upstream session, and who watches them.

    Args:
        pool: the upstream sessions.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._watched: dict[_Key, dict[str, set[Subscription]]] = {}
        self._locks: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()
        self._behind: dict[str, set[Subscription]] = {}
        self._count: Holdings[str] = Holdings()  # by person, as the next
        self._chars: Holdings[str] = Holdings()
        self._all_chars = 0
        self._tasks = Tasks()

    def __len__(self) -> int:
        """How many upstream sessions have watched resources."""
        return len(self._watched)

    def watchers(self, server: str, session: str, uris: Iterable[str]) -> set[Subscription]:
        """The clients behind an upstream session that watch one of these resources."""
        watched = self._watched.get((server, session), {})
        return set[Subscription]().union(*(watched.get(uri, ()) for uri in uris))

    def all_watchers(self, server: str, session: str) -> set[Subscription]:
        """The clients behind an upstream session that watch any resource."""
        return set[Subscription]().union(*self._watched.get((server, session), {}).values())

    async def add(self, subscription: Subscription, server: str, uri: str) -> None:
        """Subscribe a client to one resource; idempotent.

        Raises:
            InvalidRequest: it watches too many, this one's URI is too long, or all that are
                watched take too much memory.
            Refused: the upstream said no.
            UpstreamUnavailable: the upstream cannot be reached.
        """
        if (server, uri) in subscription.uris:
            return
        if len(subscription.uris) >= MOST:
            raise InvalidRequest(f"{MOST:,} resources are watched already; unsubscribe from some")
        if len(uri) > _URI_CHARS:
            raise InvalidRequest(f"a URI to watch has {len(uri):,} characters, of {_URI_CHARS:,}")
        self._take(subscription, uri)
        subscription.uris.add((server, uri))
        try:
            await self._watch(subscription, server, uri)
        except BaseException:
            self._drop(subscription, server, uri)
            raise

    def _take(self, subscription: Subscription, uri: str) -> None:
        person, size = subscription.principal.person, len(uri)
        if self._count[person] >= OF_ONE_CALLER:
            raise InvalidRequest(
                f"your clients watch {OF_ONE_CALLER:,} resources already; unsubscribe from some"
            )
        if self._chars[person] + size > _ALL_CHARS // 2 or self._all_chars + size > _ALL_CHARS:
            raise InvalidRequest("the URIs that are watched already are too long in all")
        self._count.take(person)
        self._chars.take(person, size)
        self._all_chars += size

    def _drop(self, subscription: Subscription, server: str, uri: str) -> None:
        """Record that a client stopped watching a resource."""
        if (server, uri) not in subscription.uris:
            return
        subscription.uris.discard((server, uri))
        person = subscription.principal.person
        self._all_chars -= len(uri)
        self._chars.give_back(person, len(uri))
        self._count.give_back(person)

    async def remove(self, subscription: Subscription, server: str, uri: str) -> None:
        """Unsubscribe a client from one resource; does nothing where there is no subscription.

        Raises:
            Refused: the upstream said no; the client hears nothing of it all the same.
            UpstreamUnavailable: the upstream cannot be reached.
        """
        if (server, uri) not in subscription.uris:
            return
        self._drop(subscription, server, uri)
        owner = subscription.owner
        async with self._alone(server, owner) as key:
            if self._forget(key, uri, subscription):
                watched = frozenset(self._watched.get(key, ()))
                await self._pool.set_subscriptions(server, owner, watched)

    async def remove_all(self, subscription: Subscription) -> None:
        """Unsubscribe a client that is gone from everything.

        Each upstream is told once, in a task, so that slow ones keep nobody waiting.
        """
        owner = subscription.owner
        places: dict[str, list[str]] = {}
        for server, uri in [*subscription.uris]:
            places.setdefault(server, []).append(uri)
            self._drop(subscription, server, uri)
        untold: list[asyncio.Task[None]] = []
        for server, uris in places.items():
            try:
                key = (server, self._pool.key(server, owner))
            except ArmoryError:
                continue  # it was removed
            if [uri for uri in uris if self._forget(key, uri, subscription)]:
                late = self._lock(key).locked()  # one client that waits for an upstream is enough
                telling = self._tasks.spawn(self._tell(key, owner), f"unwatch at {server}")
                untold += [] if late else [telling]
        if untold:
            await asyncio.wait(untold, timeout=_LEAVING_S)

    async def _tell(self, key: _Key, owner: Owner) -> None:
        """Send the session its current subscriptions."""
        server = key[0]
        try:
            async with asyncio.timeout(_TELLING_S), self._lock(key):
                watched = frozenset(self._watched.get(key, ()))
                await self._pool.set_subscriptions(server, owner, watched)
        except (ArmoryError, Refused, TimeoutError) as error:
            _log.rate_limited(
                "info", "unsubscribe_failed", upstream=server, error=str(error) or "no answer"
            )

    def replaced(self, server: str) -> None:
        """An upstream is gone, or has new sessions, which have no subscriptions yet."""
        watching: set[Subscription] = set()
        for key in [key for key in self._watched if key[0] == server]:
            watching.update(*self._watched.pop(key).values())
        if server in self._behind:
            self._behind[server] |= watching
        elif watching:
            self._behind[server] = watching
            self._tasks.spawn(self._catch_up(server, watching), f"watch resources of {server}")

    async def close(self) -> None:
        """Cancel the tasks that update subscriptions."""
        await self._tasks.stop()

    async def _watch(self, subscription: Subscription, server: str, uri: str) -> None:
        owner = subscription.owner
        async with self._alone(server, owner, settled=True) as key:
            if (server, uri) not in subscription.uris:
                return  # removed meanwhile
            watched = self._watched.setdefault(key, {})
            if len(watched) >= OF_ONE_SESSION and uri not in watched:
                raise InvalidRequest(
                    f"{OF_ONE_SESSION:,} resources of {server!r} are watched already; try again "
                    "when others have unsubscribed"
                )
            watchers = watched.setdefault(uri, set())
            if subscription in watchers:
                return
            again = uri if watchers else None
            watchers.add(subscription)
            try:
                await self._pool.set_subscriptions(server, owner, frozenset(watched), again)
            except BaseException:
                self._forget(key, uri, subscription)
                raise

    def _forget(self, key: _Key, uri: str, subscription: Subscription) -> bool:
        """Remove a watcher; returns whether it was the resource's last."""
        watched = self._watched.get(key, {})
        watchers = watched.get(uri, set())
        if subscription not in watchers:
            return False
        watchers.remove(subscription)
        if watchers:
            return False
        del watched[uri]
        if not watched:
            del self._watched[key]
        return True

    @asynccontextmanager
    async def _alone(
        self, server: str, owner: Owner, *, settled: bool = False
    ) -> AsyncGenerator[_Key]:
        """Hold the lock of the owner's session, so that nobody else changes its subscriptions;
        yields its key.

        Args:
            server: the upstream.
            owner: whose session it is.
            settled: whether it is to be known first which session that is.

        Raises:
            UpstreamUnavailable: the upstream is unknown.
        """
        while True:
            if settled:
                await self._pool.settle(server, owner)
            key = (server, self._pool.key(server, owner))
            async with self._lock(key):
                if key == (server, self._pool.key(server, owner)):  # else other sessions serve now
                    yield key
                    return

    def _lock(self, key: _Key) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    async def _catch_up(self, server: str, behind: set[Subscription]) -> None:
        """Send the new sessions of an upstream their subscriptions, until all have them."""
        pause_s = _FIRST_PAUSE_S
        try:
            await asyncio.sleep(0)  # lets the gateway's own session start first: it may serve them
            while True:
                failed: set[Subscription] = set()
                while behind:
                    subscription = behind.pop()
                    try:
                        await self._watch_again(subscription, server)
                    except ArmoryError as error:
                        _log.debug(
                            "resources_not_watched_yet", upstream=server, error=error.message
                        )
                        failed.add(subscription)
                if not failed:
                    return
                behind |= failed
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        finally:
            del self._behind[server]

    async def _watch_again(self, subscription: Subscription, server: str) -> None:
        for place in [place for place in subscription.uris if place[0] == server]:
            if server not in self._pool.servers():
                self._drop(subscription, *place)
                continue
            try:
                await self._watch(subscription, *place)
            except Refused as error:
                self._drop(subscription, *place)
                _log.info("resource_not_watched_again", upstream=server, error=str(error))
