"""What a legacy client sends within its session, whatever the transport.

Owns: the methods that change the session, notifications and responses of the client. Never imports
a web framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import UNSET, Raw

from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway
from armory.protocol import codes, jsonrpc
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import Malformed, RpcError
from armory.protocol.jsonrpc import Message
from armory.protocol.link import Owner, Reply
from armory.protocol.loglevels import LOG_LEVELS
from armory.protocol.meta import PROGRESS_TOKEN
from armory.protocol.rawjson import EMPTY_OBJECT, members_or_none, need_text
from armory.wire.dispatch import Dispatcher
from armory.wire.errors import ANSWERED, error_object
from armory.wire.methods import route
from armory.wire.sessions.session import Session, SessionChannel
from armory.wire.streams import EventStream

_EMPTY = Reply(result=EMPTY_OBJECT, era="legacy")


def exchange_of(
    session: Session,
    stream: EventStream,
    meta: Mapping[str, Raw],
    headers: Mapping[str, str],
    url: Mapping[str, list[str]],
) -> RequestContext:
    """A request of a session, as the request path sees it."""
    return RequestContext(
        principal=session.principal,
        client=SessionChannel(session, stream, meta.get(PROGRESS_TOKEN)),
        era="legacy",
        version=session.version,
        endpoint=session.endpoint,
        session=session.id,
        meta=meta,
        headers=headers,
        url=url,
        revealed=session.revealed,
    )


def opened(message: Message) -> tuple[dict[str, Raw], dict[str, Raw]]:
    """(params, `_meta`) of a request.

    Raises:
        Malformed: one of them is no object.
    """
    params = jsonrpc.params_of(message)
    if "_meta" not in params:
        return params, {}
    meta = members_or_none(params["_meta"])
    if meta is None:
        raise Malformed(codes.INVALID_PARAMS, "params._meta is not an object", message.key)
    return params, meta


def encoded(id: bytes, reply: Reply) -> bytes:
    """A reply as the message that answers request `id`."""
    if reply.error is not None:
        return jsonrpc.error_response(id, reply.error)
    return b"".join(jsonrpc.response_parts(id, reply.parts))


async def serve(
    dispatcher: Dispatcher,
    session: Session,
    context: RequestContext,
    message: Message,
    params: dict[str, Raw],
) -> Reply:
    """The answer to one request of a session."""
    method = message.method if message.method is not UNSET else ""
    found = route(method, "legacy")
    if found is None or found.kind != "session":
        return await dispatcher.answer(context, method, params)
    try:
        return await _session_method(dispatcher.gateway, session, context, method, params)
    except ANSWERED as failure:
        return Reply(error=error_object(failure), era="legacy")


async def _session_method(
    gateway: Gateway, session: Session, context: RequestContext, method: str, params: dict[str, Raw]
) -> Reply:
    if method == "logging/setLevel":
        level = need_text(params, "level")
        if level not in LOG_LEVELS:
            raise RpcError(
                INVALID_PARAMS,
                f"params.level is {level[:40]!r}; expected one of {', '.join(LOG_LEVELS)}",
            )
        session.log_level = level
        return _EMPTY
    uri = need_text(params, "uri")
    on = method == "resources/subscribe"
    await gateway.subscribe(context, session.subscription, uri, on=on)
    return _EMPTY


def cancel(task: asyncio.Task[None]) -> None:
    """Cancel a call, once it has begun: a task that never ran would not clean up after itself."""
    asyncio.get_running_loop().call_soon(task.cancel)


def take(gateway: Gateway, session: Session, message: Message) -> None:
    """A notification or a response of the client."""
    if not message.is_notification:
        session.answered(message)
        return
    if message.method == "notifications/roots/list_changed":
        # No request is open by which an upstream could ask what they are now.
        face = SessionChannel(session, session.general, None)
        owner = Owner(session.principal, session.id)
        session.run(gateway.pool.roots_changed(owner, face))
        return
    if message.method == "notifications/cancelled":
        try:
            request = jsonrpc.params_of(message).get("requestId")
        except Malformed:
            return
        task = session.inflight.get(bytes(memoryview(request))) if request is not None else None
        if task is not None:
            cancel(task)
