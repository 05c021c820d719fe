"""Which cache a configuration means.

Owns: the choice; adapters are imported when they are asked for.
"""

from __future__ import annotations

from armory.storage.cache import Cache, MemoryCache


def make_cache(redis: str | None) -> Cache:
    """A cache in Redis when there is a URL, else inside the process.

    Raises:
        ConfigError: the extra is absent, or the URL is not one of Redis.
    """
    if not redis:
        return MemoryCache()
    from armory.storage.redis_cache import RedisCache

    return RedisCache(redis)
