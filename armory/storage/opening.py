"""Opening the cache that a configuration names.

Owns: the choice, for caches and for counts; adapters are imported when they are asked for.
"""

from __future__ import annotations

from armory.storage import REDIS_PREFIX
from armory.storage.cache import Cache, MemoryCache
from armory.storage.shared_counts import SharedCounts


def make_cache(redis: str | None, prefix: str = REDIS_PREFIX, *, timeout_s: float = 0.5) -> Cache:
    """A cache in Redis when there is a URL, else inside the process.

    Args:
        redis: URL.
        prefix: before every key and channel there.
        timeout_s: deadline of every command to Redis, in seconds.

    Raises:
        ConfigError: the extra is absent, or the URL is not one of Redis.
    """
    if not redis:
        return MemoryCache()
    from armory.storage.redis_cache import RedisCache

    return RedisCache(redis, prefix=prefix, timeout_s=timeout_s)


def make_counts(redis: str, prefix: str = REDIS_PREFIX) -> SharedCounts:
    """Limits that replicas count together.

    Args:
        redis: URL.
        prefix: as of `make_cache`.

    Raises:
        ConfigError: as `make_cache`.
    """
    from armory.storage.redis_cache import RedisCache

    return SharedCounts(RedisCache(redis, prefix=prefix))
