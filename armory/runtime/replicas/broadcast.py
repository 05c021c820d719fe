"""Restarts and reloads that one replica is asked for and that all replicas do.

Owns: doing it here, telling the others over the change feed, and doing here, once, what another was
asked. Never imports a transport.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping

from cachetools import LRUCache

from armory.errors import ArmoryError, BackendError
from armory.logger import Logger
from armory.storage.changes import ChangeFeed
from armory.tasks import InTurn, Tasks

_log = Logger(__name__)
ASKED = "asked"
"""Topic: something that every replica is to do."""

_SEEN = 1_000
Effects = Mapping[str, list[str]]


class Broadcast:
    """Restarts and reloads of all gateways with the same configuration file and database.

    A command is carried out, and the others are told, even if the caller has gone.

    Args:
        feed: reaches the others; the database's clock, which all have in common, says what was
            asked before a process began.
        project: both of them: gateways of another file may have this database, and those of another
            database this Redis, whose channels are one for all; they are not meant.
        servers: gives the keys of the upstreams.
        restart: connects one of them anew here.
        reload: reads the configuration again here, or only says what would become of it.
    """

    def __init__(
        self,
        feed: ChangeFeed,
        project: str,
        servers: Callable[[], Collection[str]],
        restart: Callable[[str], Awaitable[None]],
        reload: Callable[[bool], Awaitable[Effects]],
    ) -> None:
        self._feed = feed
        self._project = project
        self._servers = servers
        self._restart = restart
        self._reload = reload
        self._seen = LRUCache[str, bool](_SEEN)
        self._mine = InTurn("asked of all replicas")
        self._tasks = Tasks()
        self._closed = False
        feed.subscribe(ASKED, self._heard)

    async def restart(self, server: str) -> None:
        """Reconnect an upstream, here and at the other replicas.

        Raises:
            UpstreamUnavailable: there is no such upstream.
        """

        async def work() -> None:
            await self._restart(server)
            await self._tell(server)

        await self._mine.do(work)

    async def reload(self, dry_run: bool) -> Effects:
        """Read the configuration again, here and, unless it is a dry run, at the other replicas;
        returns the effects here.

        Raises:
            ConfigError: it does not hold here; the others are not told then.
        """

        async def work() -> Effects:
            done = await self._reload(dry_run)
            if not dry_run:
                await self._tell("")
            return done

        return await self._mine.do(work)

    async def close(self) -> None:
        """Cancel what is in progress."""
        self._closed = True
        await self._mine.stop()
        await self._tasks.stop()

    async def _tell(self, server: str) -> None:
        nonce = secrets.token_hex(8)
        self._seen[nonce] = True
        try:
            async with self._feed.transaction() as transaction:
                at_ms = await self._feed.now_ms(transaction)
                transaction.changed(ASKED, f"{nonce} {at_ms} {self._id(server)}")
        except BackendError as error:
            _log.warning("replicas_not_told", upstream=server or None, error=error.message)

    async def _heard(self, value: str) -> None:
        """Carry out a command of another replica.

        Ignored: repeats (the feed delivers at least once), and commands from before this process
        began.
        """
        nonce, at_ms, id = value.split(" ")
        if nonce in self._seen or not await self._feed.is_news(int(at_ms)):
            return
        if self._closed or nonce in self._seen:  # meanwhile
            return
        self._seen[nonce] = True
        if id == self._id(""):
            self._tasks.spawn(self._done(self._reload(False)), "reload, as another replica")
        for server in self._servers():
            if id == self._id(server):
                work = self._done(self._restart(server))
                self._tasks.spawn(work, f"restart {server}, as another replica")

    async def _done(self, work: Awaitable[object]) -> None:
        try:
            await work
        except ArmoryError as error:
            _log.error("replica_does_not_follow", error=error.message)

    def _id(self, server: str) -> str:
        return hashlib.sha256(f"{self._project} {server}".encode()).hexdigest()
