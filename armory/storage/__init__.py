"""Storage: the SQL database with its migrations, the caches, the change feed."""

REDIS_PREFIX = "armory:"
"""Before every key and channel in Redis, where `storage.redis_prefix` says no other."""
