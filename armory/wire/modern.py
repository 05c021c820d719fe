"""The modern POST: one self-contained request in, one answer out, as JSON or as a stream.

Owns: climbing the ladder, serving the request, and `subscriptions/listen`. Never imports legacy
sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, InboundLadderRejection
from msgspec import UNSET, Raw

from armory.errors import ArmoryError
from armory.gateway.carriers import read_mode
from armory.gateway.changes import PROMPTS, RESOURCES, TOOLS, Subscription
from armory.gateway.exchange import Exchange, RpcError
from armory.gateway.rawjson import encode, open_or_none, pack, text_of, value
from armory.upstreams.link import Params, Refused
from armory.wire import eras, jsonrpc
from armory.wire.errors import error_object, status_of
from armory.wire.jsonrpc import Message
from armory.wire.streams import KEEPALIVE_S, PING, EventStream, frame
from armory.wire.visit import (
    NOBODY,
    LazyAnswer,
    RequestFace,
    Visit,
    json_answer,
    new_stream,
    refusal,
)

if TYPE_CHECKING:
    from armory.wire.http import HttpEdge

_log = structlog.get_logger(__name__)
_TRUE = Raw(b"true")
_LISTS: Mapping[str, str] = {
    "toolsListChanged": TOOLS,
    "promptsListChanged": PROMPTS,
    "resourcesListChanged": RESOURCES,
}


async def post(
    edge: HttpEdge, visit: Visit, message: Message, params: dict[str, Raw], meta: dict[str, Raw]
) -> web.StreamResponse:
    """Answer one modern POST."""
    if not message.is_request or message.method is UNSET:
        return _not_a_request(visit, message)
    headers = visit.request.headers
    method, id = message.method, message.key
    rejected = eras.refusal(method, params, meta, headers, headers.items())
    if rejected is not None:
        return _rejected(visit, rejected, id)
    if method == "subscriptions/listen":
        return await _listen(edge, visit, id, params)
    answer = LazyAnswer(visit)
    face = RequestFace(
        answer,
        eras.capabilities_of(meta.get(eras.CAPABILITIES_KEY)),
        text_of(meta, eras.LOG_LEVEL_KEY),
        meta.get("progressToken"),
    )
    request = visit.request
    exchange = Exchange(
        principal=visit.principal,
        client=face,
        era="modern",
        version=text_of(meta, eras.VERSION_KEY) or eras.MODERN_VERSIONS[-1],
        endpoint=visit.endpoint,
        meta=meta,
        headers=headers,
        url=url_of(request),
    )
    try:
        if method == "tools/call":
            rejected = mirrored_refusal(edge, exchange, params, headers)
            if rejected is not None:
                return _rejected(visit, rejected, id)
        reply = await edge.dispatcher.answer(exchange, method, params)
        return await answer.finish(id, reply)
    finally:
        answer.stop()


def url_of(request: web.Request) -> dict[str, list[str]]:
    """The query parameters of a request, by name."""
    if not request.rel_url.raw_query_string:
        return {}
    query = request.rel_url.query
    return {name: query.getall(name) for name in query}


def mirrored_refusal(
    edge: HttpEdge, exchange: Exchange, params: Mapping[str, Raw], headers: Mapping[str, str]
) -> InboundLadderRejection | None:
    """Check `Mcp-Param-*` headers where the client has seen which ones there are."""
    view = edge.gateway.view
    name = text_of(params, "name")
    record = view.tool(exchange, name) if name is not None else None
    if record is None or not view.headers_of(record):
        return None
    try:
        shown = exchange.endpoint.transparent or read_mode(exchange) == "raw"
    except RpcError:
        return None
    return eras.param_refusal(record.input_schema, params, headers) if shown else None


def _not_a_request(visit: Visit, message: Message) -> web.StreamResponse:
    if message.is_notification:
        version = visit.request.headers.get("MCP-Protocol-Version", eras.MODERN_VERSIONS[-1])
        rejected = eras.version_refusal(version)
        if rejected is not None:
            return _rejected(visit, rejected, jsonrpc.NULL)
        return web.Response(status=202, headers=dict(visit.extra))
    return refusal(
        400,
        jsonrpc.INVALID_REQUEST,
        "clients of this revision send requests and notifications, never responses",
        headers=visit.extra,
    )


def _rejected(visit: Visit, rejected: InboundLadderRejection, id: bytes) -> web.Response:
    status = ERROR_CODE_HTTP_STATUS.get(rejected.code, 400)
    error = jsonrpc.error(rejected.code, rejected.message, rejected.data)
    return json_answer(visit, jsonrpc.error_response(id, error), status)


# -- subscriptions/listen ----------------------------------------------------------------------


class Listening:
    """One `subscriptions/listen`: what it wants, and the frames that wait for its transport.

    Args:
        id: the request's id, verbatim.
        stream: where frames go.
    """

    def __init__(self, id: bytes, stream: EventStream) -> None:
        self.id = id
        self.stream = stream
        self._meta = Raw(encode({eras.SUBSCRIPTION_KEY: Raw(id)}))

    def deliver(self, method: str, params: Params) -> None:
        """One notification; a client too far behind loses its stream and listens anew."""
        if self.stream.last - self.stream.delivered >= 256:
            self.stream.close()
            return
        self.stream.put(jsonrpc.notification(method, {**params, "_meta": self._meta}))

    def result(self) -> bytes:
        """The frame that ends it gracefully."""
        return jsonrpc.response(self.id, encode({"resultType": "complete", "_meta": self._meta}))


async def start_listening(
    edge: HttpEdge | Any, exchange: Exchange, id: bytes, params: Mapping[str, Raw]
) -> tuple[Listening, Subscription]:
    """Subscribe to what a `subscriptions/listen` asks for; the acknowledgement is on its stream.

    Raises:
        RpcError: `params.notifications` is no object, or a part of it has the wrong type.
    """
    wanted = open_or_none(params.get("notifications"))
    if wanted is None:
        raise RpcError(jsonrpc.INVALID_PARAMS, "params.notifications is not an object")
    listening = Listening(id, EventStream("listen", keep_events=512, backlog=256))
    lists = frozenset(method for key, method in _LISTS.items() if wanted.get(key) == _TRUE)
    tasks = _texts(wanted, "taskIds")
    subscription = Subscription(
        principal=exchange.principal,
        endpoint=exchange.endpoint,
        deliver=listening.deliver,
        lists=lists,
        tasks=frozenset(tasks),
    )
    honoured: dict[str, Any] = {key: True for key, method in _LISTS.items() if method in lists}
    uris: list[str] = []
    listening.stream.attach()
    edge.gateway.changes.add(subscription)
    for uri in _texts(wanted, "resourceSubscriptions"):
        try:
            await edge.gateway.subscribe(exchange, subscription, uri)
        except (RpcError, ArmoryError, Refused) as error:
            _log.info("resource_subscription_not_honoured", error=str(error)[:200])
        else:
            uris.append(uri)
    if uris:
        honoured["resourceSubscriptions"] = uris
    if tasks:
        honoured["taskIds"] = tasks
    listening.deliver("notifications/subscriptions/acknowledged", {"notifications": pack(honoured)})
    return listening, subscription


def _texts(wanted: Mapping[str, Raw], key: str) -> list[str]:
    raw = wanted.get(key)
    given: Any = value(raw) if raw is not None else []
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(item, str) for item in given):  # pyright: ignore
        raise RpcError(
            jsonrpc.INVALID_PARAMS, f"params.notifications.{key} is not a list of strings"
        )
    return given  # pyright: ignore[reportUnknownVariableType]


async def _listen(
    edge: HttpEdge, visit: Visit, id: bytes, params: dict[str, Raw]
) -> web.StreamResponse:
    if not visit.takes_sse:
        return refusal(406, jsonrpc.INVALID_REQUEST, "Accept must list text/event-stream", id=id)
    if not edge.take_stream():
        return refusal(503, jsonrpc.LIMITED, "too many streams are open", id=id)
    subscription = None
    try:
        version = eras.MODERN_VERSIONS[-1]
        exchange = Exchange(visit.principal, NOBODY, "modern", version, visit.endpoint)
        try:
            listening, subscription = await start_listening(edge, exchange, id, params)
        except (RpcError, ArmoryError) as failure:
            error = error_object(failure)
            return json_answer(visit, jsonrpc.error_response(id, error), status_of(error))
        edge.listening.add(listening)
        response = new_stream(visit)
        await response.prepare(visit.request)
        await pump(response, listening.stream, ids=False)
        if edge.closing:
            await response.write(frame(listening.result()))
        edge.listening.discard(listening)
        await response.write_eof()
        return response
    finally:
        edge.give_stream()
        if subscription is not None:
            await asyncio.shield(edge.gateway.changes.remove(subscription))


async def pump(
    response: web.StreamResponse, stream: EventStream, *, ids: bool, after: int | None = None
) -> None:
    """Write a stream's messages, and a comment where it is silent, until it ends."""
    reader = stream.attach(after)
    try:
        while True:
            try:
                found = await stream.next(reader, KEEPALIVE_S)
            except EOFError:
                return
            if found is None:
                await response.write(PING)
                continue
            position, data = found
            await response.write(frame(data, stream.event_id(position) if ids else None))
    finally:
        stream.detach(reader)
