"""Whose a task is: the principal that made it, at a server that it may use. To everybody else it
does not exist.

Owns: the register of tasks, and the methods that take a task's id. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import structlog
from cachetools import TLRUCache
from msgspec import Raw

from armory.domain.naming import split_task
from armory.errors import BackendError
from armory.gateway.context import RequestContext
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.link import Owner, Reply
from armory.protocol.rawjson import items, members_or_none, need_text, pack, text_of, value

if TYPE_CHECKING:
    from armory.gateway.gateway import Gateway

_log = structlog.get_logger(__name__)
LEAST_S = 3_600.0
"""So long a task is remembered at least, whatever its own time to live; asking renews that."""
MOST_S = 7 * 86_400.0
KEPT = 50_000
NOBODY = "-"
_RENEWED = 4
"""A task is written again when a quarter of its time has passed."""


class Store(Protocol):
    """Small values with a time to live that replicas share (`storage.cache.Cache`)."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Write whatever was there."""
        ...

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Write only where nothing is; whether it was written."""
        ...


class Place(NamedTuple):
    """Where a task is: its server, the upstream session (`Pool.key`), its id there."""

    server: str
    session: str
    id: str

    @property
    def key(self) -> str:
        """The place as a key: ids are as good as secrets, and may be long."""
        return "task:" + hashlib.sha256("\0".join(self).encode()).hexdigest()[:40]


class _Entry(NamedTuple):
    """Whose one task is: key of the principal, time to live in seconds, when that was written."""

    maker: str
    ttl_s: float
    at_s: float


class TaskRegister:
    """Who made which task: the latest in memory, all of them in the store that replicas share.

    An id that two principals were given is nobody's: an upstream that counts its tasks from one
    again after a restart must not hand one's to the other.

    Args:
        store: shared by the replicas; None: this process is on its own.
        kept: tasks in memory; the least recently used go first.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        kept: int = KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self._clock = clock
        self._near: TLRUCache[str, _Entry] = TLRUCache(
            kept, ttu=lambda _key, entry, now: now + entry.ttl_s, timer=clock
        )
        self._news = asyncio.Event()

    async def enter(self, place: Place, maker: str, ttl_s: float | None) -> None:
        """A task was made.

        Args:
            place: where it is.
            maker: key of the principal.
            ttl_s: its time to live; None: the upstream says none.
        """
        ttl_s = MOST_S if ttl_s is None else min(max(ttl_s, LEAST_S), MOST_S)
        mine = _Entry(maker, ttl_s, self._clock())
        known = self._near.setdefault(place.key, mine)
        self._news.set()
        self._news = asyncio.Event()
        try:
            if self.store and not await self.store.add(place.key, _written(mine), ttl_s):
                known = _read(await self.store.get(place.key), mine.at_s) or mine
        except BackendError as error:
            _log.warning("task_not_shared", upstream=place.server, error=error.message)
        if known.maker != maker:
            _log.warning("task_id_twice", upstream=place.server)
            await self._write(place.key, mine._replace(maker=NOBODY))

    def near(self, place: Place) -> str | None:
        """Key of the principal that made a task, as far as this process knows."""
        entry = self._near.get(place.key)
        return None if entry is None else entry.maker

    async def maker(self, place: Place, *, within_s: float = 0.0) -> str | None:
        """Key of the principal that made a task; None: there is none.

        Args:
            place: where it is.
            within_s: how long to wait for one that is only being made.

        Raises:
            BackendError: the shared store cannot tell.
        """
        key = place.key
        entry = self._near.get(key)
        if self.store is not None:
            try:
                entry = _read(await self.store.get(key), self._clock()) or entry
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

    async def _renewed(self, key: str, entry: _Entry) -> None:
        before = self._near.get(key)
        if before is None or before.maker != entry.maker:
            self._near[key] = entry
        elif self._clock() - before.at_s > before.ttl_s / _RENEWED:
            await self._write(key, before._replace(at_s=self._clock()))

    async def _write(self, key: str, entry: _Entry) -> None:
        self._near[key] = entry
        if self.store is not None:
            try:
                await self.store.set(key, _written(entry), entry.ttl_s)
            except BackendError as error:
                _log.warning("task_not_shared", error=error.message)


def _written(entry: _Entry) -> bytes:
    return f"{entry.ttl_s:g} {entry.maker}".encode()


def _read(raw: bytes | None, now_s: float) -> _Entry | None:
    ttl, _, maker = (raw or b"").decode().partition(" ")
    return _Entry(maker, float(ttl), now_s) if maker else None


# -- results -----------------------------------------------------------------------------------


async def note_made(gateway: Gateway, context: RequestContext, server: str, reply: Reply) -> None:
    """Enter the task that a result tells of, if it does: `task` in the handshake era, the members
    of a result of type `task` in the modern one.
    """
    result = members_or_none(Raw(reply.outline))
    if result is None:
        return
    task = (
        result if text_of(result, "resultType") == "task" else members_or_none(result.get("task"))
    )
    id = text_of(task, "taskId") if task else None
    if task and id:
        session = gateway.pool.key(server, Owner(context.principal, context.session))
        place = Place(server, session, id)
        await gateway.tasks.enter(place, context.principal.key, _ttl_s(task))


def _ttl_s(task: Mapping[str, Raw]) -> float | None:
    for member in ("ttlMs", "ttl"):
        try:
            given = value(task.get(member, Raw(b"null")))
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(given, int | float) and not isinstance(given, bool):
            return float(min(max(given, 0), MOST_S * 1_000)) / 1_000
    return None


# -- methods -----------------------------------------------------------------------------------


async def located(gateway: Gateway, context: RequestContext, task: str) -> tuple[str, str] | None:
    """(server, the upstream's id) of a task as the client knows it; None: there is none for it.

    Raises:
        BackendError: the store that replicas share cannot tell.
    """
    endpoint = context.endpoint
    found = (endpoint.name, task) if endpoint.transparent else split_task(task)
    owner = Owner(context.principal, context.session)
    if found is None or not gateway.may_use(owner, endpoint, found[0]):
        return None
    server, id = found
    maker = await gateway.tasks.maker(Place(server, gateway.pool.key(server, owner), id))
    return found if maker == context.principal.key else None


async def resolved(
    gateway: Gateway, context: RequestContext, params: Mapping[str, Raw]
) -> tuple[str, str]:
    """(server, the upstream's id) of the task that `params.taskId` names.

    Raises:
        RpcError: no such task for this caller.
        BackendError: the store that replicas share cannot tell.
    """
    task = need_text(params, "taskId")
    found = await located(gateway, context, task)
    if found is None:
        raise RpcError(INVALID_PARAMS, f"unknown task: {task[:200]}", {"taskId": task})
    return found


async def own_only(gateway: Gateway, context: RequestContext, reply: Reply) -> Reply:
    """An upstream's answer to `tasks/list` with the caller's tasks alone."""
    result = members_or_none(reply.result)
    if result is None or "tasks" not in result:
        return reply
    try:
        listed = items(result["tasks"])
    except (msgspec.DecodeError, RecursionError):
        listed = []
    kept: list[Raw] = []
    for task in listed:
        id = text_of(members_or_none(task) or {}, "taskId")
        if id is not None and await located(gateway, context, id):
            kept.append(task)
    return Reply(pack({**result, "tasks": kept}), era=reply.era)
