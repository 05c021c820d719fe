"""The directory of sessions over several replicas, and their signs of life.

Owns: the map from session to replica in a shared store, and signs of life. The store is seen as a
small Protocol; nothing here is the truth about a session: only its owner knows whether it is still
there. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import islice
from typing import Protocol, TypeVar

from cachetools import LRUCache, TTLCache

from armory.errors import ArmoryError, BackendError
from armory.logger import Logger
from armory.tasks import spawn, stop

_T = TypeVar("_T")
_log = Logger(__name__)
ALIVE_S = 15.0
REMEMBERED_S = 86_400.0
"""Time to live of a claim in the store; it is renewed four times as often."""
ATTEMPTS = 3
WAITED_S = 1.0
"""How long anybody waits for the store at most: a client whose session begins or ends, a replica
that starts or ends.
"""
_AT_ONCE = 16
"""Sessions claimed side by side: the next sign of life waits for all of them."""
_BEATS = 15
"""Signs of life within the time for which one counts."""
_LOST = "replicas-lost"
"""Key that is set for a while once the store was found to have lost what replicas had written."""
_OWNERS_KEPT = 10_000
_REPLICAS_KEPT = 1_000


class Store(Protocol):
    """A store of small values with a time to live that all replicas share."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Set a value, whatever was there."""
        ...

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Set a value only where there is none; returns whether it was set."""
        ...

    async def delete(self, *keys: str) -> None:
        """Delete keys."""
        ...


class Directory:
    """This replica among the others. Satisfies `wire.sessions.registry.SessionDirectory`.

    Args:
        store: shared by all replicas.
        own_url: where the others reach this one, before every path: `http://10.0.0.3:8080`.
        alive_s: how long a replica counts as alive after its last sign of life, in seconds.

    Attributes:
        tells: what else tells the store something that it may have lost, or not taken.
        secret: this replica's sign of life, which those alone can read who share the store.
    """

    def __init__(self, store: Store, own_url: str, *, alive_s: float = ALIVE_S) -> None:
        self.store = store
        self.tells: list[Callable[[], Awaitable[None]]] = []
        self.own_url = own_url.rstrip("/")
        self._alive_s = alive_s
        self._beat_s = alive_s / _BEATS
        self._owners = LRUCache[str, str](_OWNERS_KEPT)
        self.secret = secrets.token_hex(16)
        self._secrets = LRUCache[str, str](_REPLICAS_KEPT)
        self._seen_alive = TTLCache[str, bool](_REPLICAS_KEPT, self._beat_s)
        self._claimed: set[str] = set()
        self._untold = True
        self._shown = False
        self._doubled = False
        self._failing = False
        self._hangs = False
        self._failed_at = float("-inf")
        self._beating: asyncio.Task[None] | None = None
        self._claiming: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start announcing this replica."""
        if self._beating is None:
            begun = asyncio.Event()
            self._beating = spawn(self._beat_on(begun), "signs of life")
            self._claiming = spawn(self._claim_on(), "claims of sessions")
            with suppress(TimeoutError):
                async with asyncio.timeout(WAITED_S):
                    await begun.wait()

    async def close(self) -> None:
        """Withdraw this replica: others do not forward requests to it any more."""
        beating, self._beating = self._beating, None
        if beating is not None:
            await stop(beating, self._claiming)
            if why := await self._try_delete(self._life(self.own_url)):
                _log.info("replica_not_signed_off", error=why)

    async def _beat(self) -> None:
        try:
            await self._show_life()
        except ArmoryError as error:
            if not self._failing:
                _log.warning("replica_sign_of_life_failed", error=error.message)
            self._failing = self._untold = True
        else:
            self._failing = self._hangs = False

    async def _show_life(self) -> None:
        """Write a sign of life, once the store has this replica's sessions.

        If the last one is gone, the store was emptied, or has not accepted writes for long.
        """
        life = self._life(self.own_url)
        if self._shown:
            last = await self._tried(lambda: self.store.get(life))
            if last is None:
                self._untold = True
                await self.store.set(_LOST, b"1", self._alive_s)  # fails while it takes nothing
                _log.rate_limited("warning", "shared_store_told_again", sessions=len(self._claimed))
            elif last != self.secret.encode() and not self._doubled:
                self._doubled = True
                _log.warning(
                    "replica_url_twice",
                    url=self.own_url,
                    hint="another replica says that it is there; set ARMORY_REPLICA_URL",
                )
        untold, self._untold = self._untold, False  # what fails has all of it told again
        if untold:
            await self._claim_again()
        await self._tried(lambda: self.store.set(life, self.secret.encode(), self._alive_s))
        self._shown = True
        for tell in self.tells if untold else ():
            await tell()

    async def _beat_on(self, begun: asyncio.Event) -> None:
        while True:
            await self._beat()
            begun.set()
            await asyncio.sleep(self._beat_s)

    async def _complete(self) -> bool:
        """Whether a key that is missing in the store exists nowhere.

        After the store lost data or was away, replicas need some moments to write their keys again.
        """
        if time.monotonic() - self._failed_at < self._alive_s / 3:
            return False
        own = self._life(self.own_url)
        return await self.store.get(own) is not None and await self.store.get(_LOST) is None

    @staticmethod
    def _life(url: str) -> str:
        return f"replica:{url}"

    # -- sessions ----------------------------------------------------------------------------

    async def claim(self, session_id: str) -> None:
        """Record that this replica owns the session.

        If the store fails, the claim follows with a later sign of life; at most one client waits
        for that in vain.
        """
        self._claimed.add(session_id)
        if self._failing or self._hangs:
            self._untold = True
            return
        try:
            async with asyncio.timeout(WAITED_S):
                await self._tried(lambda: self._claim(session_id))
        except (ArmoryError, TimeoutError) as error:
            self._untold = self._hangs = True
            _log.warning("session_not_claimed", error=str(error) or "no answer in time")

    async def _claim(self, session_id: str) -> None:
        await self.store.set(f"session:{session_id}", self.own_url.encode(), REMEMBERED_S)

    async def _claim_on(self) -> None:
        """Renew the claims of long sessions, which expire so that those of dead replicas do."""
        while True:
            await asyncio.sleep(REMEMBERED_S / 4)
            try:
                await self._claim_again()
            except ArmoryError as error:
                _log.warning("sessions_not_claimed_again", error=error.message)

    async def _claim_again(self) -> None:
        left = iter(tuple(self._claimed))
        while some := tuple(islice(left, _AT_ONCE)):
            await asyncio.gather(*(self._claim(one) for one in some if one in self._claimed))

    async def release(self, session_id: str) -> None:
        """The session ended: delete its claim.

        If the store is away the claim expires by itself; at most one client waits for that to show.
        """
        self._claimed.discard(session_id)
        if self._failing or self._hangs:
            return
        if why := await self._try_delete(f"session:{session_id}"):
            _log.info("session_not_released", error=why)

    async def _try_delete(self, key: str) -> str:
        """Delete a key; returns "", or why it may still be in the store."""
        try:
            async with asyncio.timeout(WAITED_S):
                await self.store.delete(key)
        except ArmoryError as error:
            return error.message
        except TimeoutError:
            self._hangs = True
            return "no answer in time"
        return ""

    async def owner(self, session_id: str) -> str | None:
        """Base URL of the other replica that owns the session and is alive; else None.

        Raises:
            ArmoryError: the store cannot be asked, or may not know of all sessions, and this one
                may well be there. To call it gone would have the client begin anew again and again.
        """
        url = self._owners.get(session_id)
        if url is None:
            found = await self._tried(lambda: self.store.get(f"session:{session_id}"))
            if found is None:
                if not await self._tried(self._complete):
                    raise BackendError(
                        "the replicas tell each other of their sessions again, since Redis was "
                        "away; try again in some seconds"
                    )
                return None
            url = found.decode()
            if url == self.own_url:
                return None
            self._owners[session_id] = url  # a session never moves
        return None if await self.is_lost(url) else url

    async def alive(self, url: str) -> bool:
        """Whether another replica may be alive, as far as the store can tell."""
        return url != self.own_url and not await self.is_lost(url)

    async def _tried(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """The store's answer, with several attempts.

        A process without CPU time for a while misses deadlines though the store is well, and
        nothing else knows where a session is.

        Raises:
            ArmoryError: it failed each time.
        """
        left = ATTEMPTS
        while True:
            try:
                return await ask()
            except ArmoryError:
                self._failed_at = time.monotonic()
                left -= 1
                if not left:
                    raise

    def secret_of(self, url: str) -> str | None:
        """The secret of another replica, as far as it is known."""
        return self._secrets.get(url)

    async def is_lost(self, url: str) -> bool:
        """Whether a replica shows no sign of life; False if the store fails, or has
        lost the signs.
        """
        if url in self._seen_alive:
            return False
        try:
            secret = await self.store.get(self._life(url))
            if secret is None:
                return await self._complete()
        except ArmoryError:
            return False
        self._secrets[url] = secret.decode()
        self._seen_alive[url] = True
        return False
