"""A read-through cache: memory, then the shared cache, then the database.

Owns: when a kept answer may be given. Never imports what is looked up.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec
from cachetools import TLRUCache

from armory.errors import BackendError
from armory.logger import Logger
from armory.storage.cache import Cache
from armory.storage.changes import ChangeFeed
from armory.tasks import Flights

_log = Logger(__name__)
T = TypeVar("T")
_TOMBSTONE = b"\x00"
_TOMBSTONE_S = 15.0  # longer than any lookup that began before the change can take


class ReadThrough(Generic[T]):
    """A lookup whose results are cached for a while, by key.

    Nothing is cached, and no cached result is returned, while the change feed is not trusted.
    `invalidate` leaves a tombstone in the shared cache, so that a lookup that read the old state
    before the change cannot put it back after it.

    Args:
        name: prefix of the keys.
        kind: type of the values, as msgspec encodes and decodes it.
        cache: the level below memory; used where it is shared.
        feed: says whether caches may answer.
        ttl_s: how long an answer is good, by the answer; 0 or less: do not keep.
        max_entries: how many answers memory keeps.
    """

    def __init__(
        self,
        name: str,
        kind: type[T],
        *,
        cache: Cache,
        feed: ChangeFeed,
        ttl_s: Callable[[T], float],
        max_entries: int = 20_000,
    ) -> None:
        self._name = name
        self._cache = cache
        self._feed = feed
        self._ttl_s = ttl_s
        self._decode = msgspec.msgpack.Decoder(tuple[float, kind])  # pyright: ignore
        self._memory: TLRUCache[str, tuple[T, float]] = TLRUCache(
            max_entries, ttu=lambda _key, entry, _now: entry[1], timer=time.monotonic
        )
        self._flights: Flights[T] = Flights()
        self._generation = 0

    async def get(self, key: str, load: Callable[[], Awaitable[T]]) -> T:
        """The value of `key`, from `load` where no cached one may be used.

        Raises:
            BackendError: `load` failed; a failing shared cache is no failure.
        """
        if self._feed.trusted:
            entry = self._memory.get(key)
            if entry is not None:
                return entry[0]
        return await self._flights.join(key, lambda: self._look(key, load))

    async def invalidate(self, key: str) -> None:
        """Drop `key` here and in the shared cache; lookups in progress are not cached."""
        self._generation += 1
        self._memory.pop(key, None)
        self._flights.forget(key)
        if self._cache.shared:
            with suppress(BackendError):  # replayed before the line is trusted again
                await self._cache.set(self._at(key), _TOMBSTONE, _TOMBSTONE_S)

    def _at(self, key: str) -> str:
        return f"{self._name}:{key}"

    async def _look(self, key: str, load: Callable[[], Awaitable[T]]) -> T:
        generation = self._generation
        use_shared = self._cache.shared and self._feed.trusted
        if use_shared:
            found = await self._shared(key)
            if found is not None:
                until, value = found
                # at most for as long as a new one, if this clock is behind the one of who wrote it
                left_s = min(until - time.time(), self._ttl_s(value))
                self._keep(key, value, left_s, generation)
                return value
        value = await load()
        ttl_s = self._ttl_s(value)
        self._keep(key, value, ttl_s, generation)
        if use_shared and ttl_s > 0 and generation == self._generation:
            with suppress(BackendError):
                packed = msgspec.msgpack.encode((time.time() + ttl_s, value))
                await self._cache.add(self._at(key), packed, ttl_s)
        return value

    async def _shared(self, key: str) -> tuple[float, T] | None:
        try:
            raw = await self._cache.get(self._at(key))
        except BackendError:
            return None
        if raw is None or raw == _TOMBSTONE:
            return None
        try:
            return self._decode.decode(raw)
        except msgspec.DecodeError as error:  # written by another version
            _log.warning("shared_cache_unreadable", cache=self._name, error=str(error))
            return None

    def _keep(self, key: str, value: T, ttl_s: float, generation: int) -> None:
        if ttl_s > 0 and generation == self._generation and self._feed.trusted:
            self._memory[key] = (value, time.monotonic() + ttl_s)
