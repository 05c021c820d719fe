"""Rate limits and quotas over all replicas, counted in Redis.

Owns: the script that takes everything that a request needs or nothing, and slots that are kept for
as long as their requests run. Never decides who has which limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Protocol

from armory.domain.limits import SLOT_WAIT_S, Demand, DemandOutcome
from armory.ending import at_most
from armory.errors import BackendError
from armory.logger import Logger
from armory.tasks import Tasks, spawn, stop

_log = Logger(__name__)
LEASE_S = 60.0
"""Seconds after which a slot of a killed replica is free again."""
_GIVE_BACK_S = 2.0
"""How long the end waits for slots that are being given back."""
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local per_s, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit, slots, lease_ms = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[6])
local day = math.floor(now / 86400000)
local today = KEYS[2] .. ':' .. string.format('%d', day)
if slots >= 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
  if redis.call('ZCARD', KEYS[3]) >= slots then return {'slots', 0} end
end
local left_ms = math.ceil((day + 1) * 86400000 - now)
if limit >= 0 and tonumber(redis.call('GET', today) or '0') >= limit then
  return {'day', left_ms}
end
if per_s > 0 then
  local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
  local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
  tokens = math.min(burst, tokens + math.max(0, now - at) / 1000 * per_s)
  local wait_ms = 0
  if tokens < 1 then wait_ms = math.ceil((1 - tokens) / per_s * 1000) else tokens = tokens - 1 end
  local filled = string.format('%.9f', tokens)
  redis.call('HSET', KEYS[1], 'tokens', filled, 'at', string.format('%.3f', now))
  redis.call('PEXPIRE', KEYS[1], math.ceil(burst / per_s * 1000) + 1000)
  if wait_ms > 0 then return {'rate', wait_ms} end
end
if limit >= 0 then
  redis.call('INCR', today)
  redis.call('PEXPIRE', today, left_ms + 3600000)
end
if slots >= 0 then
  redis.call('ZADD', KEYS[3], now + lease_ms, ARGV[5])
  redis.call('PEXPIRE', KEYS[3], lease_ms)
end
return {'', 0}
"""
_RENEW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease_ms = tonumber(ARGV[1])
for at = 2, #ARGV do redis.call('ZADD', KEYS[1], now + lease_ms, ARGV[at]) end
redis.call('PEXPIRE', KEYS[1], lease_ms)
return 1
"""
_PROBE = "return redis.call('SET', KEYS[1], '1', 'PX', 60000)"
_GIVE_BACK = "return redis.call('ZREM', KEYS[1], ARGV[1])"


class Scripts(Protocol):
    """Runs Lua scripts atomically in Redis (`storage.redis_cache.RedisCache`)."""

    async def run(self, script: str, keys: Sequence[str], values: Sequence[str | float]) -> Any:
        """The script's result.

        Raises:
            BackendError: Redis did not answer.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class SharedCounts:
    """The counts of all callers, over all replicas.

    Args:
        scripts: runs scripts at Redis, whose clock counts.
        lease_s: how long a slot outlives a replica that does not renew it.
    """

    def __init__(self, scripts: Scripts, lease_s: float = LEASE_S) -> None:
        self._scripts = scripts
        self._lease_s = lease_s
        self._held: dict[str, str] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._giving_back = Tasks()

    async def take(self, demand: Demand) -> DemandOutcome:
        """Take everything that a request needs, or nothing.

        Raises:
            BackendError: Redis does not answer; whether anything was taken is unknown then.
        """
        where = f"limits:{{{_digest(demand.identity)}}}"
        rate, per_day, slots = demand.rate, demand.per_day, demand.slots
        lease = "" if slots is None else secrets.token_hex(8)
        keys = (
            f"{where}:rate:{_digest(demand.caller)}",
            f"{where}:{'calls' if per_day is None else per_day.kind}",
            f"{where}:running",
        )
        try:
            said, wait_ms = await self._scripts.run(
                _TAKE,
                keys,
                (
                    *((0, 0) if rate is None else rate),
                    -1 if per_day is None else per_day.limit,
                    -1 if slots is None else slots,
                    lease,
                    int(self._lease_s * 1_000),
                ),
            )
        except BaseException:  # it may have been taken all the same
            if lease:
                self._return(keys[2], lease)
            raise
        if not said:
            if lease:  # not before: a renewal would take it
                self._hold(lease, keys[2])
            return DemandOutcome(lease=lease)
        if said == b"slots":
            return DemandOutcome("concurrency", SLOT_WAIT_S)
        if said == b"rate":
            return DemandOutcome("rate", wait_ms / 1_000)
        assert per_day is not None
        return DemandOutcome(per_day.kind, wait_ms / 1_000)

    async def probe(self) -> None:
        """Check that Redis would count.

        Raises:
            BackendError: it does not answer, or takes no writes.
        """
        await self._scripts.run(_PROBE, ("limits:probe",), ())

    def give_back(self, lease: str) -> None:
        """Release the slot of a request that has ended; Redis is told a moment later."""
        key = self._held.pop(lease, None)
        if key is not None:
            self._return(key, lease)

    def _return(self, key: str, lease: str) -> None:
        self._giving_back.spawn(self._given_back(key, lease), "give a slot back")

    async def _given_back(self, key: str, lease: str) -> None:
        try:
            await self._scripts.run(_GIVE_BACK, (key,), (lease,))
        except BackendError as error:
            _log.debug("slot_not_given_back", error=error.message, free_in_s=self._lease_s)

    def _hold(self, lease: str, key: str) -> None:
        self._held[lease] = key
        if self._renewing is None:
            self._renewing = spawn(self._renew(), "renew slots")

    async def _renew(self) -> None:
        """Renew the slots of long requests, periodically."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            await self.renew()

    async def renew(self) -> None:
        """Renew every slot that is held."""
        leases: dict[str, list[str]] = {}
        for lease, key in self._held.items():
            leases.setdefault(key, []).append(lease)
        for key, held in leases.items():
            try:
                await self._scripts.run(_RENEW, (key,), (int(self._lease_s * 1_000), *held))
            except BackendError as error:
                _log.warning("slots_not_renewed", error=error.message)
                return
            for lease in held:
                if lease not in self._held:  # it ended meanwhile, and was just put back
                    await self._given_back(key, lease)

    async def aclose(self) -> None:
        """Stop renewing, wait for slots that are being released, and close the connections."""
        await stop(self._renewing)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most(_GIVE_BACK_S)):
                await self._giving_back.ended()
        await self._giving_back.stop()
        await self._scripts.aclose()


def _digest(text: str) -> str:
    """A key that is short and printable, and reveals nothing about the caller."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
