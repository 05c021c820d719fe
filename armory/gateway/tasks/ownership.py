"""Ownership of tasks: a task belongs to the principal that made it. For everybody else it does not
exist.

Owns: `TaskOwnership`: entering tasks as they are made, and finding them for those that made them.
Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec
from msgspec import Raw

from armory.domain.naming import split_task
from armory.gateway.context import RequestContext
from armory.gateway.ports import Pool
from armory.gateway.tasks.register import MOST_S, Place, TaskRegister
from armory.protocol.capabilities import TASKS_EXTENSION
from armory.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY
from armory.protocol.errors import RpcError
from armory.protocol.link import Reply
from armory.protocol.meta import RELATED_TASK
from armory.protocol.rawjson import (
    encode,
    few_items,
    members_or_none,
    need_members,
    need_text,
    pack,
    scalar,
    text_of,
)

_LISTED = 10_000
"""Tasks of an upstream's answer that are checked; of a longer answer none is shown."""
_AT_ONCE = 100
"""Tasks that are checked in one round of the event loop."""
_NO_ROOM = nullcontext()
_RELATED = encode(RELATED_TASK)


class TaskOwnership:
    """Records and looks up the owners of tasks.

    Args:
        pool: says over which upstream session a caller's tasks are made.
        register: who made which.
    """

    def __init__(self, pool: Pool, register: TaskRegister) -> None:
        self._pool = pool
        self._register = register

    def room(
        self, context: RequestContext, params: Mapping[str, Raw]
    ) -> AbstractContextManager[None]:
        """Reserve room for the task that a call may make; does nothing for calls that cannot make
        one.

        Raises:
            RateLimited: on entering it, where the caller has as many tasks as it may have.
        """
        declared = context.client.capabilities
        if "task" in params or (context.era == "modern" and _declares(declared)):
            return self._register.room(context.principal.person)
        return _NO_ROOM

    async def note_made(self, context: RequestContext, server: str, reply: Reply) -> None:
        """Record the task in a result, if there is one: `task` in the handshake era, the result
        itself (of type `task`) in the modern one.

        Raises:
            RateLimited: the caller has as many as it may have, and the call had not asked for one.
            RpcError: the caller did not say that it takes tasks for results.
        """
        result = members_or_none(Raw(reply.outline))
        if result is None:
            return
        modern = text_of(result, "resultType") == "task"
        if modern and not _declares(context.client.capabilities):
            message = f"upstream {server!r} made a task, which this client did not say it can take"
            raise RpcError(INTERNAL_ERROR, message)
        task = result if modern else members_or_none(result.get("task"))
        id = text_of(task, "taskId") if task else None
        if task and id:
            place = Place(server, self._pool.key(server, context.owner), id)
            principal, ttl_s = context.principal, _ttl_s(task)
            await self._register.enter(place, principal.key, ttl_s, person=principal.person)

    async def located(self, context: RequestContext, task: str) -> tuple[str, str] | None:
        """(server, the upstream's id) of a task as the client knows it; None: this caller has no
        such task.

        Raises:
            BackendError: the store that replicas share cannot tell.
        """
        endpoint = context.endpoint
        parts = (endpoint.name, task) if endpoint.transparent else split_task(task)
        if parts is None or not context.view.servers.may_use(context.principal, endpoint, parts[0]):
            return None
        server, id = parts
        maker = await self._register.maker(Place(server, self._pool.key(server, context.owner), id))
        return parts if maker == context.principal.key else None

    async def resolved(self, context: RequestContext, params: Mapping[str, Raw]) -> tuple[str, str]:
        """(server, the upstream's id) of the task that `params.taskId` names.

        Raises:
            RpcError: no such task for this caller, or one that takes no tasks.
            BackendError: the store that replicas share cannot tell.
        """
        refuse_undeclared(context)
        task = need_text(params, "taskId")
        place = await self.located(context, task)
        if place is None:
            raise RpcError(INVALID_PARAMS, f"unknown task: {task[:200]}", {"taskId": task})
        return place

    async def related(
        self, context: RequestContext, server: str, sent: dict[str, Raw]
    ) -> dict[str, Raw]:
        """What a client sends to `server`, with the server's own id where `_meta` names a task of
        the caller. Tasks of others are removed: the server might ask their makers about this
        request. A new dict where changed.

        Raises:
            BackendError: the store that replicas share cannot tell.
        """
        meta = members_or_none(sent.get("_meta")) or {}
        if RELATED_TASK not in meta:
            return sent
        task = members_or_none(meta.pop(RELATED_TASK)) or {}
        id = text_of(task, "taskId")
        place = None if id is None else await self.located(context, id)
        if place is not None and place[0] == server:
            meta[RELATED_TASK] = pack({**task, "taskId": pack(place[1])})
        return {**sent, "_meta": pack(meta)}

    async def own_only(self, context: RequestContext, reply: Reply) -> Reply:
        """An upstream's answer to `tasks/list`, reduced to the caller's tasks.

        Raises:
            RpcError: it cannot be looked through.
        """
        if reply.result is None:
            return reply
        result = need_members(reply.result)
        if "tasks" not in result:
            return reply
        try:
            listed = few_items(result["tasks"], _LISTED)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            listed = []
        own: list[Raw] = []
        for place, task in enumerate(listed):
            if place % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            id = text_of(members_or_none(task) or {}, "taskId")
            if id is not None and await self.located(context, id):
                own.append(task)
        return Reply(pack({**result, "tasks": own}), era=reply.era)


def names_task(sent: Mapping[str, Raw]) -> bool:
    """Whether what a client sends may name a task in its `_meta`."""
    meta = sent.get("_meta")
    return meta is not None and _RELATED in bytes(memoryview(meta))


def refuse_undeclared(context: RequestContext) -> None:
    """Refuse requests about tasks from a modern client that did not declare the extension.

    Raises:
        RpcError: the client did not declare it.
    """
    if context.era == "modern" and not _declares(context.client.capabilities):
        needed = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        raise RpcError(MISSING_CAPABILITY, "Missing required client capability", needed)


def _declares(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client accepts tasks as results."""
    extensions = capabilities.get("extensions")
    # a check against an abstract class costs more than the rest of a usual call's look here
    return (
        extensions is not None and isinstance(extensions, Mapping) and TASKS_EXTENSION in extensions
    )


def _ttl_s(task: Mapping[str, Raw]) -> float | None:
    for member in ("ttlMs", "ttl"):
        given = scalar(task.get(member))
        if isinstance(given, int | float) and not isinstance(given, bool):
            return float(min(max(given, 0), MOST_S * 1_000)) / 1_000
    return None
