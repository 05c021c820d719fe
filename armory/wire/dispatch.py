"""From a decoded request to its answer, whatever the transport.

Owns: calling the one gateway method that a route names, and turning whatever comes of it into a
reply in the client's era. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway
from armory.protocol.codes import METHOD_NOT_FOUND
from armory.protocol.errors import RpcError
from armory.protocol.link import Reply
from armory.protocol.rawjson import EMPTY_OBJECT
from armory.wire.eras import ladder as eras
from armory.wire.errors import ANSWERED, error_object
from armory.wire.interaction.interactions import Interactions, OwnedByReplica
from armory.wire.methods import Kind, exists_elsewhere, route

_log = structlog.get_logger(__name__)
Invoke = Callable[[dict[str, Raw]], Awaitable[Reply]]
_READY_MADE: frozenset[Kind] = frozenset(("list_tools", "list_entries", "hello"))


class Dispatcher:
    """Serves the requests of one edge.

    Args:
        gateway: the request path.
        interactions: multi-round-trip requests and their parking place.
    """

    def __init__(self, gateway: Gateway, interactions: Interactions) -> None:
        self.gateway = gateway
        self.interactions = interactions

    async def answer(self, context: RequestContext, method: str, params: dict[str, Raw]) -> Reply:
        """The answer to one request; every failure is one, too (but cancellation passes).

        Raises:
            OwnedByReplica: only another replica can answer.
        """
        try:
            return await self._answer(context, method, params)
        except OwnedByReplica:
            raise
        except ANSWERED as failure:
            return Reply(error=error_object(failure), era=context.era)
        except Exception as failure:  # noqa: BLE001 a defect must not leave a request unanswered
            _log.error("request_failed", method=method[:100], error=repr(failure), exc_info=True)
            return Reply(error=error_object(failure), era=context.era)

    async def _answer(self, context: RequestContext, method: str, params: dict[str, Raw]) -> Reply:
        gateway = self.gateway
        found = route(method, context.era)
        if found is None:
            if exists_elsewhere(method, context.era):
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
            params = self._passed(context, params)
            reply = await gateway.pass_on(context, method, params)
            return self._shaped(context, method, reply)
        if found.kind == "hello":
            return self._hello(context, method)
        if found.kind in ("session", "listen"):  # the transports serve these themselves
            raise RpcError(METHOD_NOT_FOUND, f"Method not found here: {method}")
        if gateway.personal.servers:
            await gateway.prepare(context, current=found.kind in _READY_MADE)
        if found.kind == "list_tools":
            return await gateway.list_tools(context, params)
        if found.kind == "list_entries":
            return await gateway.list_entries(context, method, params)
        params = self._passed(context, params)
        invoke = self._invoke(context, found.kind, method)
        if found.interactive:
            reply = await self.interactions.run(context, method, params, invoke)
        else:
            reply = await invoke(params)
        return self._shaped(context, method, reply)

    def _passed(self, context: RequestContext, params: dict[str, Raw]) -> dict[str, Raw]:
        transparent = context.endpoint.transparent
        return eras.with_passed_meta(params, context.meta, transparent=transparent)

    def _shaped(self, context: RequestContext, method: str, reply: Reply) -> Reply:
        endpoint = context.endpoint
        view = self.gateway.view
        found = route(method, context.era)
        return eras.shape(
            reply,
            method,
            context.era,
            view.info(endpoint),
            transparent=endpoint.transparent,
            private=found is not None and found.cacheable and view.policy.restricts,
        )

    def _invoke(self, context: RequestContext, kind: Kind, method: str) -> Invoke:
        gateway = self.gateway
        if kind == "call_tool":
            return lambda params: gateway.call_tool(context, params)
        if kind == "get_prompt":
            return lambda params: gateway.get_prompt(context, params)
        if kind == "read_resource":
            return lambda params: gateway.read_resource(context, params)
        if kind == "complete":
            return lambda params: gateway.complete(context, params)
        return lambda params: gateway.task_method(context, method, params)

    def _hello(self, context: RequestContext, method: str) -> Reply:
        if method == "server/discover":
            return Reply(eras.discover_result(self.gateway.described(context)), era="modern")
        return Reply(EMPTY_OBJECT, era="legacy")
