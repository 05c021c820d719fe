"""The `Cache` that replicas share: Redis, or a server that speaks its protocol.

Owns: the only use of the `redis` package (extra). Never imports a room but `tasks`.

Every command is tried once with a short deadline: whoever asks has a database to fall back on,
and a Redis that is away must cost as little as possible.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Any, TypeVar, cast

from armory.errors import BackendError, ConfigError
from armory.storage import REDIS_PREFIX
from armory.tasks import cancellable

try:
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.client import PubSub
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import NoScriptError, RedisError, ResponseError
except ImportError as error:  # pragma: no cover - the extra is there in tests
    raise ConfigError(
        'Redis needs an extra: pip install "armory-mcp-gateway[redis]"', path="storage.redis"
    ) from error

T = TypeVar("T")
_CONNECTIONS = 200
# uvloop answers a write to a connection that has just been lost with a RuntimeError
_FAILURES = (RedisError, OSError, asyncio.TimeoutError, RuntimeError)


class RedisCache:
    """A `Cache` in Redis.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        prefix: before every key and channel, so that several Armories can share one Redis.
        timeout_s: deadline of every command.

    Raises:
        ConfigError: the URL is not one of Redis.
    """

    def __init__(self, url: str, *, prefix: str = REDIS_PREFIX, timeout_s: float = 0.5) -> None:
        self._prefix = prefix
        self._timeout_s = timeout_s
        try:
            # One that is at its most would else be taken for a Redis that is away.
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=timeout_s,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 0),
            )
            pool.make_connection()  # connects to nothing, and looks at what the URL says besides
            self._redis = Redis.from_pool(pool)
        except ValueError:
            raise ConfigError(
                "not a Redis URL; expected redis://host:6379/0, rediss://... or unix://...",
                path="storage.redis",
            ) from None
        except TypeError as error:
            named = str(error).partition("argument ")[2] or "one of them"
            raise ConfigError(
                f"a Redis URL of this kind has no parameter {named}; leave it out, or begin with "
                "rediss:// for those of TLS",
                path="storage.redis",
            ) from None

    @property
    def shared(self) -> bool:
        """True: other processes use it, too."""
        return True

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        return cast("bytes | None", await self._do(self._redis.get(self._prefix + key)))

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Set a value, whatever was there."""
        await self._do(self._redis.set(self._prefix + key, value, px=_ms(ttl_s)))

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Set a value only where there is none; returns whether it was set."""
        done = await self._do(self._redis.set(self._prefix + key, value, px=_ms(ttl_s), nx=True))
        return bool(done)

    async def renew(self, key: str, ttl_s: float) -> bool:
        """Have what is there last for so long from now on."""
        return bool(await self._do(self._redis.pexpire(self._prefix + key, _ms(ttl_s))))

    async def delete(self, *keys: str) -> None:
        """Delete keys."""
        if keys:
            await self._do(self._redis.delete(*(self._prefix + key for key in keys)))

    async def publish(self, channel: str, message: bytes) -> None:
        """Publish a message to the current listeners of all processes."""
        await self._do(self._redis.publish(self._prefix + channel, message))

    async def forgets(self) -> str:
        """By which policy keys are forgotten when its memory is full; "": none are, or it does not
        say.
        """
        try:
            said = await self._do(self._redis.info("memory"))
        except BackendError as error:
            if not isinstance(error.__cause__, ResponseError):  # else: who asks may not know
                raise
            return ""
        policy = str(said.get("maxmemory_policy", "noeviction"))
        return policy if said.get("maxmemory") and policy != "noeviction" else ""

    async def run(self, script: str, keys: Sequence[str], values: Sequence[str | float]) -> Any:
        """Run a Lua script atomically on these keys; returns its result."""
        digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        arguments = (len(keys), *(self._prefix + key for key in keys), *map(str, values))
        try:
            return await self._do(self._redis.evalsha(digest, *arguments))
        except BackendError as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        return await self._do(self._redis.eval(script, *arguments))

    async def listen(self, channel: str, *, heartbeat_s: float) -> AsyncGenerator[bytes | None]:
        """Messages of all processes. A heartbeat is an answered ping, so None proves that the
        connection is up.
        """
        pubsub = self._redis.pubsub()
        try:
            await self._do(pubsub.subscribe(self._prefix + channel))
            waiting = True  # for the answer to the subscription, later to each ping
            while True:
                message = await self._next(pubsub, self._timeout_s if waiting else heartbeat_s)
                if message is None:
                    if waiting:
                        raise BackendError("Redis does not answer; see `storage.redis`")
                    await self._do(pubsub.ping())
                    waiting = True
                elif message["type"] == "message":
                    yield message["data"]
                elif message["type"] in {"subscribe", "pong"}:
                    waiting = False
                    yield None
        finally:
            await pubsub.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._redis.aclose()

    async def _next(self, pubsub: PubSub, timeout_s: float) -> dict[str, Any] | None:
        return await self._do(pubsub.get_message(timeout=timeout_s))

    async def _do(self, command: Awaitable[T]) -> T:
        try:
            return await cancellable(command)
        except _FAILURES as error:
            raise BackendError(f"Redis failed ({_kind(error)}); see `storage.redis`") from error


def _kind(error: BaseException) -> str:
    """The kind of an error in one word: Redis' own code (`MISCONF`) where its client has no class
    for it.
    """
    code = str(error).partition(" ")[0] if type(error) is ResponseError else ""
    return code if code.isupper() else type(error).__name__


def _ms(ttl_s: float) -> int:
    return max(1, int(ttl_s * 1000))
