"""The modern POST: one self-contained request in, one answer out, as JSON or as a stream.

Owns: climbing the ladder, serving the request, and `subscriptions/listen`. Never imports legacy
sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, InboundLadderRejection
from msgspec import UNSET, Raw

from armory.errors import ArmoryError
from armory.gateway.context import RequestContext
from armory.gateway.query_parsing import read_mode
from armory.protocol import codes, jsonrpc, versions
from armory.protocol import meta as meta_keys
from armory.protocol.errors import RpcError
from armory.protocol.jsonrpc import Message
from armory.protocol.meta import PROGRESS_TOKEN
from armory.protocol.rawjson import text_of
from armory.security.expiry import while_valid
from armory.wire.eras import ladder as eras
from armory.wire.errors import error_object, status_of
from armory.wire.http.admitted import (
    NOBODY,
    AdmittedRequest,
    LazyAnswer,
    RequestChannel,
    json_answer,
    new_stream,
    refusal,
    url_of,
)
from armory.wire.http.replicas import OwnerGone, was_passed
from armory.wire.interaction.interactions import OwnedByReplica
from armory.wire.listening import start_listening
from armory.wire.streams import frame, pump

if TYPE_CHECKING:
    from armory.wire.http.edge import HttpEdge

_log = structlog.get_logger(__name__)


async def post(
    edge: HttpEdge,
    admitted: AdmittedRequest,
    message: Message,
    params: dict[str, Raw],
    meta: dict[str, Raw],
) -> web.StreamResponse:
    """Answer one modern POST."""
    if not message.is_request or message.method is UNSET:
        return _not_a_request(admitted, message)
    headers = admitted.request.headers
    method, id = message.method, message.key
    version = text_of(meta, meta_keys.PROTOCOL_VERSION)
    rejected = eras.refusal(method, version, params, meta, headers, headers.items())
    if rejected is not None:
        return _rejected(admitted, rejected, id)
    if method == "subscriptions/listen":
        return await _listen(edge, admitted, id, params)
    answer = LazyAnswer(admitted, edge.patience)
    face = RequestChannel(
        answer,
        eras.capabilities_of(meta.get(meta_keys.CLIENT_CAPABILITIES)),
        text_of(meta, meta_keys.LOG_LEVEL),
        meta.get(PROGRESS_TOKEN),
    )
    request = admitted.request
    context = RequestContext(
        principal=admitted.principal,
        client=face,
        era="modern",
        version=version or versions.MODERN_VERSIONS[-1],
        endpoint=admitted.endpoint,
        meta=meta,
        headers=headers,
        url=url_of(request),
    )
    try:
        if method == "tools/call":
            rejected = mirrored_refusal(edge, context, params, headers)
            if rejected is not None:
                return _rejected(admitted, rejected, id)
        reply = await edge.dispatcher.answer(context, method, params)
        return await answer.finish(id, reply)
    except OwnedByReplica as elsewhere:
        return await _pass_on(edge, admitted, id, elsewhere.replica)
    finally:
        answer.stop()


def mirrored_refusal(
    edge: HttpEdge, context: RequestContext, params: Mapping[str, Raw], headers: Mapping[str, str]
) -> InboundLadderRejection | None:
    """Check `Mcp-Param-*` headers where the client has seen which ones there are."""
    view = edge.gateway.view_for(context)
    name = text_of(params, "name")
    record = view.tool(context, name) if name is not None else None
    if record is None or not view.headers_of(record):
        return None
    try:
        shown = context.endpoint.transparent or read_mode(context) == "raw"
    except RpcError:
        return None
    return eras.param_refusal(record.input_schema, params, headers) if shown else None


async def _pass_on(
    edge: HttpEdge, admitted: AdmittedRequest, id: bytes, replica: str
) -> web.StreamResponse:
    """Let the replica that parked the call go on with it."""
    replicas = edge.replicas
    if replicas is not None and not was_passed(admitted) and await replicas.alive(replica):
        with suppress(OwnerGone):
            return await replicas.pass_on(admitted, replica)
    data = {"reason": "invalid_request_state"}
    message = "Invalid or expired requestState"
    return refusal(400, codes.INVALID_PARAMS, message, id=id, data=data, headers=admitted.extra)


def _not_a_request(admitted: AdmittedRequest, message: Message) -> web.StreamResponse:
    if message.is_notification:
        version = admitted.request.headers.get("MCP-Protocol-Version", versions.MODERN_VERSIONS[-1])
        rejected = eras.version_refusal(version)
        if rejected is not None:
            return _rejected(admitted, rejected, jsonrpc.NULL)
        return web.Response(status=202, headers=dict(admitted.extra))
    return refusal(
        400,
        codes.INVALID_REQUEST,
        "clients of this revision send requests and notifications, never responses",
        headers=admitted.extra,
    )


def _rejected(
    admitted: AdmittedRequest, rejected: InboundLadderRejection, id: bytes
) -> web.StreamResponse:
    status = ERROR_CODE_HTTP_STATUS.get(rejected.code, 400)
    error = jsonrpc.error(rejected.code, rejected.message, rejected.data)
    return json_answer(admitted, jsonrpc.error_response(id, error), status)


async def _listen(
    edge: HttpEdge, admitted: AdmittedRequest, id: bytes, params: dict[str, Raw]
) -> web.StreamResponse:
    if not admitted.takes_sse:
        return refusal(406, codes.INVALID_REQUEST, "Accept must list text/event-stream", id=id)
    if not edge.take_stream():
        return refusal(
            503,
            codes.LIMITED,
            "too many streams are open (server.limits.streams); try again later",
            id=id,
        )
    subscription = None
    try:
        version = versions.MODERN_VERSIONS[-1]
        context = RequestContext(admitted.principal, NOBODY, "modern", version, admitted.endpoint)
        try:
            listening, subscription = await start_listening(edge.gateway, context, id, params)
        except (RpcError, ArmoryError) as failure:
            error = error_object(failure)
            return json_answer(admitted, jsonrpc.error_response(id, error), status_of(error))
        edge.listening.add(listening)
        response = new_stream(admitted)
        await response.prepare(admitted.request)
        await while_valid(admitted.principal, pump(response.write, listening.stream, ids=False))
        if edge.closing:
            await response.write(frame(listening.result()))
        edge.listening.discard(listening)
        await response.write_eof()
        return response
    finally:
        edge.give_stream()
        if subscription is not None:
            await asyncio.shield(edge.gateway.changes.remove(subscription))
