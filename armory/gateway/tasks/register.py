"""The register of tasks and their makers.

Owns: `TaskRegister`: in memory, and in the store that replicas share; how many of one person there
may be. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from armory.domain.limits import Holdings
from armory.errors import BackendError, RateLimited
from armory.gateway.settings import TASKS_PER_PRINCIPAL
from armory.gateway.tasks.entries import Entries, Entry
from armory.logger import Logger

_log = Logger(__name__)
LEAST_S = 3_600.0
"""How long a task is remembered at least, whatever its own time to live; asking renews that."""
MOST_S = 7 * 86_400.0
KEPT = 50_000
NOBODY = "-"
_RENEWED = 4
"""A task is stored again after this part of its time to live: one in four."""


class Store(Protocol):
    """A store of small values with a time to live that replicas share (`storage.cache.Cache`)."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Set a value, whatever was there."""
        ...

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Set a value only where there is none; returns whether it was set."""
        ...

    async def renew(self, key: str, ttl_s: float) -> bool:
        """Have what is there last for so long from now on; whether anything was there."""
        ...


class Place(NamedTuple):
    """The place of a task: its server, the upstream session (`Pool.key`), its id there."""

    server: str
    session: str
    id: str

    @property
    def key(self) -> str:
        """The place as a key. Hashed: ids are as good as secrets, and may be long."""
        return "task:" + hashlib.sha256("\0".join(self).encode()).hexdigest()[:40]


class TaskRegister:
    """The makers of tasks: the latest in memory, all of them in the store that replicas share.

    An id that two principals were given belongs to nobody: an upstream that counts its tasks from
    one again after a restart must not give one's task to the other.

    Args:
        store: shared by the replicas; None: this process is on its own.
        kept: tasks in memory; those of whoever has most go first.
        per_principal: tasks in memory of one person, with those that may be being made.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        kept: int = KEPT,
        per_principal: int = TASKS_PER_PRINCIPAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._near = Entries(kept, clock)
        self._per_principal = per_principal
        self._coming: Holdings[str] = Holdings()
        self._news = asyncio.Event()

    @contextmanager
    def room(self, person: str) -> Generator[None]:
        """Reserve room for one more task of a person during a call that may make it.

        Raises:
            RateLimited: it has as many as it may have.
        """
        if self._near.count(person) + self._coming[person] >= self._per_principal:
            raise self._too_many()
        self._coming.take(person)
        try:
            yield
        finally:
            self._coming.give_back(person)

    def _too_many(self) -> RateLimited:
        return RateLimited(
            f"the gateway remembers {self._per_principal} tasks of yours and takes no more "
            "(server.limits.tasks_per_principal); each is forgotten when its time to live is "
            f"over, after {LEAST_S / 3_600:g} h at least"
        )

    async def enter(
        self, place: Place, maker: str, ttl_s: float | None, *, person: str = ""
    ) -> None:
        """Record a new task.

        Args:
            place: where it is.
            maker: key of the principal.
            ttl_s: its time to live; None: the upstream says none.
            person: as whose it counts; empty: as the maker's.

        Raises:
            RateLimited: it is new, and its maker has as many as it may have: a call made it that
                did not say that it might.
        """
        ttl_s = MOST_S if ttl_s is None else min(max(ttl_s, LEAST_S), MOST_S)
        mine = Entry(maker, ttl_s, self._clock(), person)
        if place.key not in self._near and self._near.count(mine.counted) >= self._per_principal:
            raise self._too_many()
        known = self._near.setdefault(place.key, mine)
        self._news.set()
        self._news = asyncio.Event()
        try:
            if self._store and not await self._store.add(place.key, _written(mine), ttl_s):
                known = _read(await self._store.get(place.key), mine.at_s) or mine
        except BackendError as error:
            _log.warning("task_not_shared", upstream=place.server, error=error.message)
        if known.maker != maker:
            _log.warning("task_id_twice", upstream=place.server)
            await self._nobodys(place.key, mine)

    async def tell(self) -> None:
        """Write everything in memory to the store again: it was away, or has lost it.

        Raises:
            BackendError: the store failed.
        """
        if self._store is None:
            return
        for key, entry in list(self._near.items()):
            if entry.maker == NOBODY:
                await self._store.set(key, _written(entry), entry.ttl_s)
            else:
                await self._store.add(key, _written(entry), entry.ttl_s)

    def near(self, place: Place) -> str | None:
        """Key of the principal that made a task, as far as this process knows."""
        entry = self._near.get(place.key)
        return None if entry is None else entry.maker

    async def maker(self, place: Place, *, within_s: float = 0.0) -> str | None:
        """Key of the principal that made a task; None: there is no such task.

        Args:
            place: where it is.
            within_s: how long to wait for one that is only being made.

        Raises:
            BackendError: the shared store cannot tell.
        """
        key = place.key
        entry = self._near.get(key)
        if self._store is not None:
            try:
                entry = _read(await self._store.get(key), self._clock()) or entry
            except BackendError:
                if entry is None:
                    raise
        if entry is None and within_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    while (entry := self._near.get(key)) is None:
                        await self._news.wait()
        if entry is None:
            return None
        await self._renewed(key, entry)
        return entry.maker

    async def _renewed(self, key: str, entry: Entry) -> None:
        before = self._near.get(key)
        if before is not None and before.maker == entry.maker:
            if self._clock() - before.at_s <= before.ttl_s / _RENEWED:
                return
            entry = before._replace(at_s=self._clock())
        # else it is new here, and how long the store has had it is not known
        self._near[key] = entry
        if self._store is not None:
            try:  # the value stays what others may have made of it meanwhile
                if not await self._store.renew(key, entry.ttl_s):
                    await self._store.add(key, _written(entry), entry.ttl_s)
            except BackendError as error:
                _log.warning("task_not_shared", error=error.message)

    async def _nobodys(self, key: str, entry: Entry) -> None:
        entry = entry._replace(maker=NOBODY, person="")
        self._near[key] = entry
        if self._store is not None:
            try:
                await self._store.set(key, _written(entry), entry.ttl_s)
            except BackendError as error:
                _log.warning("task_not_shared", error=error.message)


def _written(entry: Entry) -> bytes:
    return f"{entry.ttl_s:g} {entry.maker}".encode()


def _read(raw: bytes | None, now_s: float) -> Entry | None:
    ttl, _, maker = (raw or b"").decode().partition(" ")
    return Entry(maker, float(ttl), now_s) if maker else None
