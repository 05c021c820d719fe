"""Joins this process to its replicas: its address for them, and the shared store.

Owns: opening the shared store of the MCP edge when `storage.redis` is set.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import AsyncExitStack
from typing import NamedTuple

from armory.config.model import Config
from armory.logger import Logger
from armory.storage.cache import Cache
from armory.storage.shared_counts import SharedCounts
from armory.storage.watch import CacheWatch
from armory.wire.http.replicas import Replicas

_log = Logger(__name__)
REPLICA_URL = "ARMORY_REPLICA_URL"
"""Environment variable: the URL at which the other replicas reach this one, without a path."""

_DIRECTORY_TIMEOUT_S = 2.0
"""Longer than a cache's time-out: nothing else can say where a session is."""

_ANYWHERE = frozenset(("", "0.0.0.0", "::"))


class Shared(NamedTuple):
    """The state that the MCP edge shares with other replicas.

    Attributes:
        replicas: the map of sessions and the hop; None for a replica on its own.
        store: where the replicas keep what they share; None likewise.
        watch: whether that is there; None likewise.
        counts: what callers have taken of their limits, of all replicas; None likewise.
    """

    replicas: Replicas | None = None
    store: Cache | None = None
    watch: CacheWatch | None = None
    counts: SharedCounts | None = None

    @property
    def away(self) -> str:
        """Why the store is away, and the consequences; "": it is there."""
        if self.watch is None or not self.watch.problem:
            return ""
        return f"{self.watch.problem}; sessions and tasks of other replicas cannot be looked up"


async def shared(
    config: Config, stack: AsyncExitStack, host: str, port: int, base_path: str
) -> Shared:
    """Join the other replicas, if `storage.redis` is configured.

    Args:
        config: the configuration.
        stack: closes what is opened here.
        host: the bind address.
        port: the bound port, never 0.
        base_path: prefix of every route, which what is passed on has already.
    """
    redis, prefix = config.storage.redis, config.storage.redis_prefix
    if redis is None:
        return Shared()
    from armory.storage.redis_cache import RedisCache  # an extra

    store = RedisCache(redis, prefix=prefix)
    stack.push_async_callback(store.aclose)
    directory = RedisCache(redis, prefix=prefix, timeout_s=_DIRECTORY_TIMEOUT_S)
    stack.push_async_callback(directory.aclose)
    url = os.environ.get(REPLICA_URL) or f"http://{await _reachable(host)}:{port}"
    url = url.rstrip("/").removesuffix(base_path)
    _log.info("replica_joins", url=url)
    watch = CacheWatch(store)
    watch.start()
    stack.push_async_callback(watch.stop)
    counts = SharedCounts(RedisCache(redis, prefix=prefix))
    stack.push_async_callback(counts.aclose)
    return Shared(Replicas(directory, url), store, watch, counts)


async def _reachable(host: str) -> str:
    if host in _ANYWHERE:
        loop = asyncio.get_running_loop()
        own = await loop.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        host = str(own[0][4][0])
    return f"[{host}]" if ":" in host else host
