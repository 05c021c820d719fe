"""The change feed, both directions.

Owns: `ChangeFeed`: writing changes, polling for those of others, the channel of the shared cache.

A change is written in the same transaction as what it is about, so it cannot be lost. Every
process polls for changes a few times a second, and tells what it changed itself over the shared
cache's channel at once; the poll is the net below it. Where the database counts its commits, a
poll asks for them first, and for the changes only when there were any. `trusted` says whether this
process would have heard of a change by now: while it is false, nothing kept in memory or in the
shared cache may answer, and the database is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Select, bindparam, delete, func, insert, select

from armory.errors import BackendError
from armory.logger import Logger
from armory.storage.cache import Cache
from armory.storage.changes.handlers import ChangeHandlers, Handler
from armory.storage.connection import AsyncConnection
from armory.storage.database import Database
from armory.storage.tables import changes

LEARNED_USES = "uses"
"""Topic: some of what was learned from use is forgotten."""

_log = Logger(__name__)
CHANNEL = "changes"
POLL_S = 0.25
LEASE_S = 0.9
REPLAY_MS = 330_000  # longer than anything stays in a shared cache
QUIET_S = 5.0
"""How long an unchanged count of commits may replace a look at the changes."""
_KEPT_MS = 3_600_000
_LATE_MS = 15_000  # a transaction that took its number early may commit so much later
_BATCH = 5_000
_RECONNECT_S = 0.5
_NEVER_MS = -(1 << 52)


@dataclass(slots=True)
class Transaction:
    """A write transaction whose changes other processes are told.

    Attributes:
        connection: to write with.
        told: (topic, value) of what changes.
    """

    connection: AsyncConnection
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def changed(self, topic: str, value: str) -> None:
        """Tell every process of a change, once this is committed."""
        self.told.append((topic, value))


class ChangeFeed:
    """The feed, both directions. `run()` it in one task for as long as the process serves.

    Args:
        database: where changes are written.
        cache: with a shared one, changes travel over its channel too, and only an unbroken line
            to it is trusted.
        clock: seconds, monotonic.

    Attributes:
        problem: why the database did not answer the last time; empty: it did.
        began_ms: when this process began to look for changes, by the database's clock; None: it has
            not yet.
    """

    def __init__(
        self,
        database: Database,
        cache: Cache,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem = ""
        self.began_ms: int | None = None
        self._database = database
        self._cache = cache
        self._clock = clock
        self._handlers = ChangeHandlers()
        self._since = _since(database)
        self._floor_ms: int | None = None
        self._more = False
        self._polled_at = float("-inf")
        self._looked_at = float("-inf")
        self._asked_at: float | None = None
        self._took_s = 0.0
        self._commits: int | None = None
        self._line_at = float("-inf")
        self._line_ready = False
        self._beat = asyncio.Event()
        self._looking = asyncio.Lock()

    @property
    def trusted(self) -> bool:
        """Whether a change made anywhere would have arrived by now (within the lease)."""
        last = self._line_at if self._cache.shared else self._polled_at
        ready = self._line_ready or not self._cache.shared
        return ready and self._clock() - last < LEASE_S

    @property
    def took_s(self) -> float:
        """Seconds that the database took to answer the last time, or is taking now."""
        waited_s = 0.0 if self._asked_at is None else self._clock() - self._asked_at
        return max(self._took_s, waited_s)

    @contextmanager
    def _timed(self, at: float) -> Generator[None]:
        self._asked_at = at
        try:
            yield
        finally:
            self._took_s, self._asked_at = self._clock() - at, None

    def subscribe(self, topic: str, handler: Handler, *, replayed: bool = True) -> None:
        """Call `handler` with the value of every change of `topic`, possibly more than once; where
        `replayed`, with those of the last minutes whenever the line is up again.
        """
        self._handlers.subscribe(topic, handler, replayed=replayed)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """A write transaction whose changes are announced; at its end the handlers of this process
        have run.

        Raises:
            BackendError: the database failed; nothing was written.
        """
        async with self._database.write() as connection:
            transaction = Transaction(connection)
            yield transaction
            announced = list(dict.fromkeys(transaction.told))
            if announced:
                now = self._database.now_ms
                rows = [
                    {"at_ms": now, "topic": topic, "value": value} for topic, value in announced
                ]
                await connection.execute(insert(changes).values(rows))
        for topic, value in announced:
            await self._handlers.handle(topic, value)
        if announced and self._cache.shared:
            with suppress(BackendError):  # the poll of the others finds it
                await self._cache.publish(CHANNEL, msgspec.json.encode(announced))

    async def now_ms(self, transaction: Transaction) -> int:
        """The time of the database's clock, which all processes share."""
        asked = await transaction.connection.execute(select(self._database.now_ms))
        return asked.scalar_one()

    async def is_news(self, at_ms: int) -> bool:
        """Whether a change with this time of the database's clock came after this process began, or
        that clock was set back since.

        Raises:
            BackendError: the database could not be asked.
        """
        if self.began_ms is None or at_ms >= self.began_ms:
            return self.began_ms is not None
        async with self._database.read() as connection:
            now_ms = (await connection.execute(select(self._database.now_ms))).scalar_one()
        return now_ms < self.began_ms and abs(now_ms - at_ms) < _LATE_MS

    async def run(self) -> None:
        """Receive the changes of other processes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll_forever(), name="changes: poll")
            if self._cache.shared:
                group.create_task(self._listen_forever(), name="changes: listen")

    async def wait_trusted(self, timeout_s: float) -> bool:
        """Wait until `trusted`; returns whether it is."""
        deadline = self._clock() + timeout_s
        while not self.trusted:
            left = deadline - self._clock()
            if left <= 0:
                return False
            self._beat.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, POLL_S)):
                    await self._beat.wait()
        return True

    async def poll(self) -> None:
        """Read the changes that were committed until now.

        Raises:
            BackendError: it could not be asked.
        """
        async with self._looking:
            await self._poll()

    async def _poll(self) -> None:
        began = self._clock()
        commits = self._database.commits()  # before the look: one made since is seen next time
        if commits is not None and commits == self._commits and began - self._looked_at < QUIET_S:
            self._took_s = 0.0
            self._up_to_date(began)
            return
        with self._timed(began):
            async with self._database.read() as connection:
                if self._floor_ms is None:
                    now_ms = (await connection.execute(select(self._database.now_ms))).scalar_one()
                    self.began_ms, self._floor_ms = now_ms, now_ms - _LATE_MS
                late_ms = _NEVER_MS if self._more else _LATE_MS
                values = {"floor_ms": self._floor_ms, "late_ms": late_ms}
                rows = (await connection.execute(self._since, values)).all()
        failed: Exception | None = None
        for row in rows:
            change = row.id, row.at_ms
            if not self._handlers.has_handled(change):
                failure = await self._handlers.handle_committed(change, row.topic, row.value)
                failed = failed or failure
        try:
            if failed is not None:  # all others are handled; until this one is, nothing is trusted
                raise failed
        finally:
            failure = failed = None  # which hold this frame by their traces
        self._more = len(rows) == _BATCH
        if self._more:  # before anything is trusted
            self._floor_ms = max(self._floor_ms + 1, rows[-1].at_ms)
            return
        if rows:
            self._floor_ms = max(self._floor_ms, rows[-1].at_ms - _LATE_MS)
        self._commits, self._looked_at = commits, began
        self._up_to_date(began)

    def _up_to_date(self, at: float) -> None:
        self._polled_at = at
        self._beat.set()

    async def prune(self) -> None:
        """Delete changes that every process has seen long ago."""
        async with self._database.write() as connection:
            await connection.execute(
                delete(changes).where(changes.c.at_ms < self._database.now_ms - _KEPT_MS)
            )

    async def _poll_forever(self) -> None:
        while True:
            try:
                await self.poll()
                self.problem = ""
            except BackendError as error:
                if not self.problem:
                    _log.warning("change_poll_failed", error=error.message)
                self.problem = error.message
            await asyncio.sleep(POLL_S)

    async def _listen_forever(self) -> None:
        while True:
            try:
                line = self._cache.listen(CHANNEL, heartbeat_s=POLL_S)
                async with aclosing(line) as messages:
                    async for message in messages:
                        await self._alive(message)
            except BackendError as error:
                if self._line_ready:
                    _log.warning("change_line_down", error=error.message)
            finally:
                self._line_ready = False
            await asyncio.sleep(_RECONNECT_S)

    async def _alive(self, message: bytes | None) -> None:
        if not self._line_ready:
            await self._replay()  # what changed while nobody listened is still in the shared cache
            self._line_ready = True
            _log.info("change_line_up")
        if message is not None:
            await self._announced(message)
        self._line_at = self._clock()
        self._beat.set()

    async def _replay(self) -> None:
        recent = (
            select(changes.c.topic, changes.c.value, func.max(changes.c.id))
            .where(changes.c.at_ms >= self._database.now_ms - REPLAY_MS)
            .group_by(changes.c.topic, changes.c.value)
        )
        async with self._database.read() as connection:
            rows = (await connection.execute(recent)).all()
        for row in rows:
            await self._handlers.handle(row.topic, row.value, again=True)

    async def _announced(self, message: bytes) -> None:
        try:
            announced = msgspec.json.decode(message, type=list[tuple[str, str]])
        except msgspec.DecodeError:
            _log.warning("change_message_unreadable", size_bytes=len(message))
            return
        for topic, value in announced:
            await self._handlers.handle(topic, value)


def _since(database: Database) -> Select[*tuple[Any, ...]]:
    """The query for changes since `floor_ms`, or since `late_ms` before now if that is earlier.
    Built once, since it runs again and again.
    """
    floor, late = (bindparam(name, type_=BigInteger) for name in ("floor_ms", "late_ms"))
    earlier = database.not_after_now(floor, late)
    return (
        select(changes.c.id, changes.c.at_ms, changes.c.topic, changes.c.value)
        .where(changes.c.at_ms >= earlier)
        .order_by(changes.c.at_ms, changes.c.id)
        .limit(_BATCH)
    )
