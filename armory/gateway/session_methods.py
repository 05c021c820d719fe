"""The methods that change a legacy session.

Owns: `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe`. Never imports a
transport.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Raw

from armory.errors import UpstreamUnavailable
from armory.gateway.calls.forwarding import located
from armory.gateway.changes.resource_watches import ResourceWatches
from armory.gateway.context import RequestContext
from armory.gateway.ports import Limiter, Pool
from armory.gateway.requests import ClientSession
from armory.gateway.tasks.ownership import TaskOwnership
from armory.protocol.codes import INVALID_PARAMS, METHOD_NOT_FOUND
from armory.protocol.errors import RpcError
from armory.protocol.link import RESOURCE_META, Reply
from armory.protocol.methods import LOG_LEVELS
from armory.protocol.rawjson import EMPTY_OBJECT, need_text

_DONE = Reply(EMPTY_OBJECT, era="legacy")


class SessionMethods:
    """Answers the methods that change a legacy session.

    Args:
        pool: the upstream sessions.
        resources: the resources that clients watch.
        limiter: asked before a client watches one.
        tasks: whose tasks are.
    """

    def __init__(
        self, pool: Pool, resources: ResourceWatches, limiter: Limiter, tasks: TaskOwnership
    ) -> None:
        self._pool = pool
        self._resources = resources
        self._limiter = limiter
        self._tasks = tasks

    async def set_log_level(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `logging/setLevel`.

        Raises:
            RpcError: no level that there is.
        """
        session = _session(context)
        level = need_text(params, "level")
        if level not in LOG_LEVELS:
            raise RpcError(
                INVALID_PARAMS,
                f"params.level is {level[:40]!r}; expected one of {', '.join(LOG_LEVELS)}",
                {"parameter": "params.level"},
            )
        session.log_level = level
        self._pool.log_level_changed(session.owner, level)
        return _DONE

    async def subscribe(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `resources/subscribe`.

        Raises:
            RateLimited: the caller has exceeded its rate.
            BackendError: the store that replicas share cannot tell whose a task is.
            RpcError: no such resource for this caller.
            UpstreamUnavailable: its upstream cannot be reached.
        """
        subscription = _session(context).subscription
        await self._limiter.take(context.principal)
        server, uri = located(self._pool, context, need_text(params, "uri"))
        with _with_meta(uri, await self._tasks.related(context, server, params)):
            await self._resources.add(subscription, server, uri)
        return _DONE

    async def unsubscribe(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `resources/unsubscribe`; a name that does not exist counts against the rate.

        Raises:
            RateLimited: the caller has exceeded its rate.
            BackendError: the store that replicas share cannot tell whose a task is.
            RpcError: no such resource for this caller.
            UpstreamUnavailable: its upstream cannot be reached.
        """
        subscription = _session(context).subscription
        wanted = need_text(params, "uri")
        try:
            server, uri = located(self._pool, context, wanted)
        except (RpcError, UpstreamUnavailable):
            await self._limiter.take(context.principal)
            raise
        with _with_meta(uri, await self._tasks.related(context, server, params)):
            await self._resources.remove(subscription, server, uri)
        return _DONE


@contextmanager
def _with_meta(uri: str, params: dict[str, Raw]) -> Generator[None]:
    """Send the client's `_meta` along with subscriptions to upstreams meanwhile."""
    meta = params.get("_meta")
    before = RESOURCE_META.set(None if meta is None else (uri, meta))
    try:
        yield
    finally:
        RESOURCE_META.reset(before)


def _session(context: RequestContext) -> ClientSession:
    """The session of a request.

    Raises:
        RpcError: the request has no session.
    """
    if context.session is None:
        raise RpcError(METHOD_NOT_FOUND, "Method not found: there is no session")
    return context.session
