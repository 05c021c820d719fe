"""The modern POST: one self-contained request, answered as JSON or as a stream.

Owns: checking the request against its headers, having it answered, and `subscriptions/listen`.
Never imports legacy sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from aiohttp import web
from msgspec import UNSET, Raw

from armory.domain.principal import Principal
from armory.gateway.context import RequestContext
from armory.gateway.queries.carriers import read_mode
from armory.gateway.requests import ClientRequest
from armory.protocol import codes, jsonrpc
from armory.protocol.errors import RpcError
from armory.protocol.headers import VERSION_HEADER
from armory.protocol.jsonrpc import Message
from armory.protocol.link import Reply
from armory.protocol.meta import PROTOCOL_VERSION
from armory.protocol.methods import LISTEN
from armory.protocol.rawjson import text_of
from armory.protocol.versions import MODERN_VERSIONS
from armory.security.expiry import while_valid
from armory.wire.eras import inbound
from armory.wire.eras.mismatch import param_refusal
from armory.wire.errors import error_object, status_of
from armory.wire.http.admission import RequestRejected
from armory.wire.http.admitted import (
    OVERDUE,
    AdmittedRequest,
    answered_overdue,
    json_answer,
    new_stream,
    refusal,
)
from armory.wire.http.context import EdgeContext
from armory.wire.http.lazy_answer import LazyAnswer
from armory.wire.http.replicas import OwnerGone, was_passed
from armory.wire.interaction.state import REFUSED_STATE, OwnedByReplica
from armory.wire.listening import ClientListening
from armory.wire.messages import encoded
from armory.wire.methods import named_parameter
from armory.wire.requests import modern_request
from armory.wire.sse import frame, pump


class ModernEndpoint:
    """Serves modern clients.

    Args:
        edge: what the handlers of the edge share.
    """

    def __init__(self, edge: EdgeContext) -> None:
        self._edge = edge

    async def post(
        self,
        admitted: AdmittedRequest,
        message: Message,
        params: dict[str, Raw],
        meta: dict[str, Raw],
    ) -> web.StreamResponse:
        """Answer one POST."""
        if not message.is_request or message.method is UNSET:
            return _not_a_request(admitted, message)
        headers = admitted.caller.headers
        method, id = message.method, message.key
        version = text_of(meta, PROTOCOL_VERSION)
        rejected = inbound.refusal(method, version, params, meta, named_parameter(method), headers)
        if rejected is not None:
            self._edge.dispatcher.refused(admitted.caller, rejected.code, method)
            return _rejected(admitted, rejected, id)
        version = version or MODERN_VERSIONS[-1]
        if method == LISTEN:
            request = modern_request(admitted.caller, version, meta, _nowhere, id)
            return await self._listen(admitted, request, id, params)
        answer = LazyAnswer(admitted, self._edge.keepalive)
        request = modern_request(admitted.caller, version, meta, answer.event, id)
        verify = _verify_mirrored if method == "tools/call" else None
        try:
            try:
                reply = await self._edge.dispatcher.answer(request, method, params, verify)
            except asyncio.CancelledError:
                reply = _overdue(admitted)
            if self._edge.admission.outdated(admitted):
                await self._confirm(answer, request)
            return await answer.finish(id, reply)
        except OwnedByReplica as owned:
            if answer.begun:  # after long silence: the client has the headers of this answer
                self._edge.dispatcher.refused(admitted.caller, codes.INVALID_PARAMS, method)
                return await answer.finish(id, Reply(error=REFUSED_STATE))
            answer.stop()  # what keeps the connection comes from there as well
            return await self._pass_on(admitted, id, method, owned.replica)
        except BaseException:
            answer.stop()
            raise

    async def end_those(self, whose: Callable[[Principal], bool]) -> None:
        """End the requests in flight of principals whose access has ended. Each is authenticated
        again, since a person may have used another credential as well; if that is not possible now,
        it is done before the answer is sent.
        """
        edge = self._edge
        for answer in edge.keepalive:
            if isinstance(answer, LazyAnswer) and whose(answer.admitted.caller.principal):
                try:
                    await edge.admission.confirm(answer.admitted)
                except RequestRejected as rejected:
                    if rejected.reason != "unavailable":
                        answer.cut()

    async def _confirm(self, answer: LazyAnswer, request: ClientRequest) -> None:
        """Authenticate again before the answer is sent; if access has ended, a question in it is
        dropped, since nobody can answer it.

        Raises:
            RequestRejected: whoever asks may not come in any more.
            ConnectionResetError: the same, of whom a part of the answer was written to.
        """
        try:
            await self._edge.admission.confirm(answer.admitted)
        except RequestRejected as rejected:
            if rejected.reason == "unavailable":  # who was let in, as far as anybody can tell
                return
            self._edge.dispatcher.leave(request)
            if not answer.begun:
                raise
            answer.cut()
            raise ConnectionResetError("its credential has ended") from None

    async def _pass_on(
        self, admitted: AdmittedRequest, id: bytes, method: str, replica: str
    ) -> web.StreamResponse:
        """Forward the request to the replica that parked the call."""
        replicas = self._edge.replicas
        if replicas is not None and not was_passed(admitted) and await replicas.alive(replica):
            with suppress(OwnerGone):
                return await replicas.pass_on(admitted, replica)
        self._edge.dispatcher.refused(admitted.caller, codes.INVALID_PARAMS, method)
        body = jsonrpc.error_response(id, REFUSED_STATE)
        return json_answer(admitted, body, status_of(REFUSED_STATE))

    async def _listen(
        self, admitted: AdmittedRequest, request: ClientRequest, id: bytes, params: dict[str, Raw]
    ) -> web.StreamResponse:
        streams = self._edge.streams
        if not admitted.takes_sse:
            self._edge.dispatcher.refused(admitted.caller, "http_406", LISTEN)
            message = "Accept must list text/event-stream"
            return refusal(406, codes.INVALID_REQUEST, message, id=id, headers=admitted.extra)
        key = admitted.caller.principal.person
        if full := streams.take(key):
            self._edge.dispatcher.refused(admitted.caller, codes.LIMITED, LISTEN)
            return refusal(503, codes.LIMITED, full, id=id, headers=admitted.extra)
        listening = None
        try:
            listening = await self._edge.dispatcher.listen(request, id, params)
            if isinstance(listening, Reply):
                status = status_of(listening.error) if listening.error is not None else 200
                return json_answer(admitted, encoded(id, listening), status)
            await self._edge.admission.confirm(admitted)
            return await self._stream(admitted, listening)
        finally:
            streams.give_back(key)
            if isinstance(listening, ClientListening):
                await listening.end()

    async def _stream(
        self, admitted: AdmittedRequest, listening: ClientListening
    ) -> web.StreamResponse:
        streams = self._edge.streams
        streams.add_listening(listening)
        try:
            response = new_stream(admitted)
            await response.prepare(admitted.request)
            principal = admitted.caller.principal
            await while_valid(principal, pump(response.write, listening.stream, ids=False))
            if streams.closing:
                await response.write(frame(listening.result()))
        finally:
            streams.drop_listening(listening)
        await response.write_eof()
        return response


async def _nowhere(_data: bytes) -> None:
    """Drop a message: the stream of a listening request carries only what it listens to."""


def _verify_mirrored(context: RequestContext, params: Mapping[str, Raw]) -> None:
    """Check `Mcp-Param-*` headers against the tool's schema, if the client can have seen it.

    Raises:
        RpcError: they do not fit the arguments.
    """
    name = text_of(params, "name")
    view = context.view
    record = None if name is None else view.tool_named(context, name)
    if record is None or not view.headers_of(record) or not view.shows(context, record):
        return
    try:
        shown = context.endpoint.transparent or read_mode(context) == "raw"
    except RpcError:
        return
    if not shown:
        return
    rejected = param_refusal(record.input_schema, params, context.headers)
    try:
        if rejected is not None:
            raise rejected
    finally:
        del rejected  # which holds this frame by its trace


def _overdue(admitted: AdmittedRequest) -> Reply:
    """The answer to a request that is cancelled because the gateway shuts down.

    Raises:
        CancelledError: it is cancelled for another reason.
    """
    if not answered_overdue(admitted):
        raise
    return Reply(error=jsonrpc.error(codes.BACKEND, OVERDUE))


def _not_a_request(admitted: AdmittedRequest, message: Message) -> web.StreamResponse:
    if message.is_notification:
        version = admitted.caller.headers.get(VERSION_HEADER, MODERN_VERSIONS[-1])
        rejected = inbound.version_refusal(version)
        if rejected is not None:
            return _rejected(admitted, rejected, jsonrpc.NULL)
        return web.Response(status=202, headers=dict(admitted.extra))
    return refusal(
        400,
        codes.INVALID_REQUEST,
        "clients of this revision send requests and notifications, never responses",
        headers=admitted.extra,
    )


def _rejected(admitted: AdmittedRequest, rejected: RpcError, id: bytes) -> web.StreamResponse:
    error = error_object(rejected)
    return json_answer(admitted, jsonrpc.error_response(id, error), status_of(error))
