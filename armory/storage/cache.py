"""The cache interface (key-value and publish/subscribe, Redis in production), and one in memory.

Owns: the `Cache` Protocol, its implementation inside the process, and asking for several values.
Never imports a driver (Redis: `redis_cache`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from cachetools import TLRUCache

_MESSAGES_KEPT = 10_000
_VALUES_KEPT = 20_000


class Cache(Protocol):
    """Key-value with expiry and publish/subscribe. Every method may raise `BackendError`.

    It is never authoritative: after a miss the database is asked.
    """

    @property
    def shared(self) -> bool:
        """Whether other processes use it, too."""
        ...

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Set a value, whatever was there."""
        ...

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Set a value only where there is none; returns whether it was set. Atomic."""
        ...

    async def renew(self, key: str, ttl_s: float) -> bool:
        """Have what is there last for so long from now on; whether anything was there. Atomic."""
        ...

    async def delete(self, *keys: str) -> None:
        """Delete keys; missing ones are no error."""
        ...

    async def publish(self, channel: str, message: bytes) -> None:
        """Publish a message to the current listeners."""
        ...

    def listen(self, channel: str, *, heartbeat_s: float) -> AsyncGenerator[bytes | None]:
        """Messages from now on; None at least every `heartbeat_s` while the connection is known to
        be up.

        The first None says that listening has begun.

        Raises:
            BackendError: the line broke; messages may have been lost.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class Values:
    """A cache, for callers that ask for several values at a time.

    Args:
        cache: where they are.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """Values in the order of the keys."""
        return await asyncio.gather(*(self._cache.get(key) for key in keys))

    async def set_many(self, values: Mapping[str, bytes], ttl_s: float) -> None:
        """Set values, whatever was there."""
        await asyncio.gather(*(self._cache.set(key, value, ttl_s) for key, value in values.items()))


class MemoryCache:
    """A `Cache` in memory; expired and least recently used entries are evicted.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._values: TLRUCache[str, tuple[bytes, float]] = TLRUCache(
            _VALUES_KEPT, ttu=lambda _key, entry, now: now + entry[1], timer=clock
        )
        self._listeners: dict[str, set[asyncio.Queue[bytes]]] = {}

    @property
    def shared(self) -> bool:
        """False: no other process uses it."""
        return False

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        entry = self._values.get(key)
        return None if entry is None else entry[0]

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Set a value, whatever was there."""
        self._values[key] = (value, ttl_s)

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Set a value only where there is none; returns whether it was set."""
        if key in self._values:
            return False
        self._values[key] = (value, ttl_s)
        return True

    async def renew(self, key: str, ttl_s: float) -> bool:
        """Have what is there last for so long from now on."""
        entry = self._values.get(key)
        if entry is None:
            return False
        self._values[key] = (entry[0], ttl_s)
        return True

    async def delete(self, *keys: str) -> None:
        """Delete keys."""
        for key in keys:
            self._values.pop(key, None)

    async def publish(self, channel: str, message: bytes) -> None:
        """Queue the message for every listener of this process."""
        for queue in self._listeners.get(channel, ()):
            with suppress(asyncio.QueueFull):
                queue.put_nowait(message)

    async def listen(self, channel: str, *, heartbeat_s: float) -> AsyncGenerator[bytes | None]:
        """Messages of this process; heartbeats while there are none."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(_MESSAGES_KEPT)
        self._listeners.setdefault(channel, set()).add(queue)
        try:
            yield None
            while True:
                message: bytes | None = None
                with suppress(TimeoutError):
                    async with asyncio.timeout(heartbeat_s):
                        message = await queue.get()
                yield message
        finally:
            self._listeners[channel].discard(queue)

    async def aclose(self) -> None:
        """Drop everything."""
        self._values.clear()
