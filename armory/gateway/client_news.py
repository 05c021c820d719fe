"""Notifications of clients with a session, on their way to upstreams.

Owns: `ClientNews`: changed roots, and at an upstream's own endpoint whatever Armory does not know.
Never imports a transport.
"""

from __future__ import annotations

import asyncio

from armory.errors import ArmoryError, RateLimited
from armory.gateway.context import RequestContext
from armory.gateway.ports import Limiter, Pool
from armory.gateway.requests import ClientSession
from armory.gateway.tasks.ownership import TaskOwnership
from armory.logger import Logger
from armory.protocol.link import ClientChannel, Params

_log = Logger(__name__)
_WAIT_S = 1.0
"""Pause before another try where nobody says when the rate has room again."""


class ClientNews:
    """Passes notifications of clients on to upstreams.

    Args:
        pool: the upstream sessions.
        limiter: asked before any upstream is told.
        tasks: whose tasks are.
    """

    def __init__(self, pool: Pool, limiter: Limiter, tasks: TaskOwnership) -> None:
        self._pool = pool
        self._limiter = limiter
        self._tasks = tasks
        self._more: dict[str, Params | None] = {}

    async def roots_changed(
        self, session: ClientSession, client: ClientChannel, params: Params
    ) -> None:
        """A client's roots changed; `params`: the parameters of its notification.

        Further changes while upstreams are being notified, or while the caller's rate is used up,
        are coalesced into one notification afterwards, with the parameters of the last: upstreams
        fetch the roots themselves.
        """
        id = session.id
        if id in self._more:
            self._more[id] = params
            return
        self._more[id] = params
        try:
            while self._more[id] is not None:
                await self._room(session)
                params, self._more[id] = self._more[id] or {}, None
                await self._pool.roots_changed(session.owner, client, params)
        finally:
            del self._more[id]

    async def _room(self, session: ClientSession) -> None:
        while True:
            try:
                await self._limiter.take(session.owner.principal)
            except RateLimited as full:
                await asyncio.sleep(full.retry_after_s or _WAIT_S)
            else:
                return

    async def pass_on(self, context: RequestContext, method: str, params: Params) -> None:
        """Pass a notification that Armory does not know to the upstream of a transparent endpoint.

        As with unknown methods, only for callers from whom policy hides nothing of that server.
        Otherwise it is dropped silently: notifications have no answer.
        """
        server, view = context.endpoint.name, context.view
        may_use = view.servers.may_use(context.principal, context.endpoint, server)
        if not may_use or not view.servers.sees_whole(context):
            return
        try:
            await self._limiter.take(context.principal)
            said = await self._tasks.related(context, server, params)
            await self._pool.notify(server, context.owner, method, said)
        except ArmoryError as error:
            _log.debug("notification_not_passed_on", upstream=server, error=error.message)
