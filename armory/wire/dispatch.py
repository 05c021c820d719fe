"""Dispatches decoded requests to their handlers, whatever the transport.

Owns: calling the handler that the table names, and turning whatever comes of it into a reply in
the client's era. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway
from armory.gateway.requests import ClientRequest
from armory.logger import Logger
from armory.protocol.codes import METHOD_NOT_FOUND
from armory.protocol.errors import RpcError, method_not_found
from armory.protocol.link import Reply
from armory.protocol.spelling import refuse_other_case
from armory.wire.caller import Caller
from armory.wire.eras.client_meta import with_passed_meta
from armory.wire.eras.results import shape
from armory.wire.errors import ANSWERED, error_object
from armory.wire.interaction.interactions import Interactions
from armory.wire.interaction.state import OwnedByReplica
from armory.wire.listening import ClientListening, start_listening
from armory.wire.logins import asking_for_logins
from armory.wire.methods import METHODS, Handler, Route, exists_elsewhere, route

_log = Logger(__name__)
Verify = Callable[[RequestContext, Mapping[str, Raw]], None]


class Dispatcher:
    """Answers the requests of one edge.

    Args:
        gateway: the request path.
        interactions: multi-round-trip requests and their parking place.
    """

    def __init__(self, gateway: Gateway, interactions: Interactions) -> None:
        self._gateway = gateway
        self._interactions = interactions
        self._handlers: dict[str, Handler] = {
            method: asking_for_logins(method, found.handler(gateway))
            for method, found in METHODS.items()
            if found.handler
        }

    async def answer(
        self,
        request: ClientRequest,
        method: str,
        params: dict[str, Raw],
        verify: Verify | None = None,
    ) -> Reply:
        """The answer to one request; every failure becomes an answer (cancellation passes through).

        Args:
            request: who asks, where.
            method: what it asks.
            params: members of its parameters.
            verify: what the transport has to check besides, once it is known what the caller
                sees; raises `RpcError`.

        Raises:
            OwnedByReplica: only another replica can answer.
        """
        try:
            return await self.handled(request, method, params, verify)
        except OwnedByReplica:
            raise
        except Exception as failure:  # noqa: BLE001 a defect must not leave a request unanswered
            return failed(failure, request, method)

    async def handled(
        self,
        request: ClientRequest,
        method: str,
        params: dict[str, Raw],
        verify: Verify | None,
    ) -> Reply:
        """As `answer`, but failures are raised."""
        found = route(method, request.era)
        if found is None:
            return await self._pass_on(request, method, params)
        handler = self._handlers.get(method)
        if handler is None:  # the transports serve these themselves
            raise RpcError(METHOD_NOT_FOUND, f"Method not found here: {method}")
        context = await self._gateway.context(request, own_lists=found.own_lists)
        if verify is not None:
            verify(context, params)
        if found.forwarded or found.relayed:
            params = _passed(context, params)
        if not found.forwarded:
            return await handler(context, params)
        if found.interactive:
            reply = await self._interactions.run(context, method, params, handler)
        else:
            reply = await handler(context, params)
        return _shaped(context, method, found, reply)

    async def _pass_on(self, request: ClientRequest, method: str, params: dict[str, Raw]) -> Reply:
        """Pass a method that is not in the table to the upstream of a transparent endpoint."""
        if exists_elsewhere(method, request.era) or not request.endpoint.transparent:
            raise method_not_found(method)
        context = await self._gateway.context(request)
        reply = await self._gateway.primitives.unknown(method, context, _passed(context, params))
        return _shaped(context, method, None, reply)

    def leave(self, request: ClientRequest) -> None:
        """The client of an answered request did not get the answer: end its parked call."""
        self._interactions.leave(request.client)

    def refused(self, caller: Caller, code: int | str, method: str = "") -> None:
        """Called for a request that its transport refuses itself: it cannot be understood, does not
        fit its headers, names no session, or exceeds a limit.

        Args:
            caller: who asked, where.
            code: of the refusal.
            method: what was asked; "": that is not known.
        """

    async def listen(
        self, request: ClientRequest, id: bytes, params: Mapping[str, Raw]
    ) -> ClientListening | Reply:
        """Open the stream of a `subscriptions/listen`; an error reply where it cannot be opened."""
        try:
            context = await self._gateway.context(request)
            return await start_listening(self._gateway, context, id, params)
        except ANSWERED as failure:
            return Reply(error=error_object(failure), era=request.era)


def failed(failure: Exception, request: ClientRequest, method: str) -> Reply:
    """The answer to a request that failed; an unexpected exception is logged."""
    if not isinstance(failure, ANSWERED):
        _log.rate_limited(
            "error", "request_failed", method=method[:100], error=repr(failure), exc_info=failure
        )
    return Reply(error=error_object(failure), era=request.era)


def _passed(context: RequestContext, params: dict[str, Raw]) -> dict[str, Raw]:
    refuse_other_case(params, "params")
    return with_passed_meta(params, context.meta, transparent=context.endpoint.transparent)


def _shaped(context: RequestContext, method: str, found: Route | None, reply: Reply) -> Reply:
    view, endpoint = context.view, context.endpoint
    cacheable = found is not None and found.cacheable
    return shape(
        reply,
        method,
        context.era,
        view.info(endpoint),
        transparent=endpoint.transparent,
        cacheable=cacheable,
        private=cacheable and view.policy.restricts,
    )
