"""Probes in the background whether the store that replicas share is available.

Owns: `CacheWatch`. Never imports a room but `tasks`.
"""

from __future__ import annotations

import asyncio

from armory.errors import BackendError
from armory.logger import Logger
from armory.storage.cache import Cache
from armory.tasks import spawn, stop

_log = Logger(__name__)
PROBE_S = 1.0
_KEY = "watch"
_KEPT_S = 60.0


class CacheWatch:
    """Watches a shared cache.

    A cache that can be read but not written (full, read-only, without its replicas) counts as away,
    too: replicas could not tell each other of new sessions.

    Args:
        cache: is written to once a second; every write has its own deadline.

    Attributes:
        problem: why the cache is away; empty while it is there.
    """

    def __init__(self, cache: Cache) -> None:
        self.problem = ""
        self._cache = cache
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start watching; idempotent."""
        if self._task is None:
            self._task = spawn(self._run(), "shared store: watch")

    async def stop(self) -> None:
        """Stop watching."""
        await stop(self._task)

    async def _run(self) -> None:
        while True:
            await self._probe()
            await asyncio.sleep(PROBE_S)

    async def _probe(self) -> None:
        """Write once. A cache that was available is away only when a second attempt fails, too: the
        first may have waited for this process.
        """
        why = await self._failure()
        if why and not self.problem:
            why = await self._failure()
        if why and not self.problem:
            _log.warning("shared_store_away", error=why)
        elif self.problem and not why:
            _log.info("shared_store_back")
        self.problem = why

    async def _failure(self) -> str:
        try:
            await self._cache.set(_KEY, b"1", _KEPT_S)
        except BackendError as error:
            return error.message
        return ""
