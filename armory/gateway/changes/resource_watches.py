"""Resources that clients subscribed to, counted by upstream session.

Owns: `ResourceWatches`: telling an upstream session which resources somebody behind it wants to
hear of. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from armory.errors import ArmoryError, InvalidRequest
from armory.gateway.ports import Pool
from armory.gateway.subscription import Subscription
from armory.logger import Logger
from armory.protocol.link import Refused

_log = Logger(__name__)
MOST = 1_000
"""Resources that one client may watch."""
_URI_CHARS = 8_192
"""The longest URI of one."""


class ResourceWatches:
    """Reference counts toward upstreams.

    Args:
        pool: the upstream sessions.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    def __len__(self) -> int:
        """How many upstream sessions are asked for updates."""
        return len(self._counts)

    async def add(self, subscription: Subscription, server: str, uri: str) -> None:
        """Let a client hear of updates of one resource; twice is once.

        Raises:
            InvalidRequest: it watches too many, or this one's URI is too long.
            UpstreamUnavailable: the upstream cannot be told.
        """
        if (server, uri) in subscription.uris:
            return
        if len(subscription.uris) >= MOST:
            raise InvalidRequest(f"{MOST:,} resources are watched already; unsubscribe from some")
        if len(uri) > _URI_CHARS:
            raise InvalidRequest(f"a URI to watch has {len(uri):,} characters, of {_URI_CHARS:,}")
        subscription.uris.add((server, uri))
        try:
            await self._count(subscription, server, uri, +1)
        except BaseException:
            subscription.uris.discard((server, uri))
            raise

    async def remove(self, subscription: Subscription, server: str, uri: str) -> None:
        """The reverse; nothing where there was no subscription.

        Raises:
            UpstreamUnavailable: the upstream cannot be told.
        """
        if (server, uri) in subscription.uris:
            subscription.uris.discard((server, uri))
            await self._count(subscription, server, uri, -1)

    async def remove_all(self, subscription: Subscription) -> None:
        """A client is gone, with everything that it watched."""
        for server, uri in list(subscription.uris):
            try:
                await self.remove(subscription, server, uri)
            except (ArmoryError, Refused) as error:
                _log.info("unsubscribe_failed", server=server, error=str(error))

    async def _count(self, subscription: Subscription, server: str, uri: str, step: int) -> None:
        owner = subscription.owner
        if step > 0:
            await self._pool.settle(server, owner)
        key = (server, self._pool.key(server, owner))
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            counts = self._counts.setdefault(key, Counter())
            before = counts[uri]
            counts[uri] += step
            if counts[uri] <= 0:
                del counts[uri]
            try:
                if not before or uri not in counts:
                    await self._pool.set_subscriptions(server, owner, frozenset(counts))
                elif step > 0:
                    await self._pool.set_subscriptions(server, owner, frozenset(counts), again=uri)
            except BaseException:
                if step > 0:
                    counts[uri] -= step
                    if counts[uri] <= 0:
                        del counts[uri]
                raise
            finally:
                if not counts:
                    self._counts.pop(key, None)
